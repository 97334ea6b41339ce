"""Which names does code use that can run: a fixed point over the outlines of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from detlint.linter.analysis.classes import QUIET_BASES
from detlint.linter.analysis.outline import Definition, as_attribute

# The last words of bases that call nothing of what derives from them but `forward` and methods with two underscores.
_QUIET = frozenset(base.rpartition(".")[2] for base in QUIET_BASES) | {"Dataset", "Enum", "IterableDataset"}
_DEPTH = 4  # of base classes


def names_led_to(names: Iterable[str], definitions: Iterable[Definition]) -> frozenset[str]:
    """Return `names` with all that is read by definitions which they lead to, by name alone: `seed` means any `seed`.

    A method is led to where its class is and something reads an attribute of its name; the methods of a class that
    code out of sight may call are led to with the class.
    """
    by_name: dict[str, list[Definition]] = {}
    for definition in definitions:
        by_name.setdefault(definition.name, []).append(definition)
    open_classes = {name for name in by_name if _may_be_called_unseen(name, by_name, _DEPTH)}
    waiting: dict[str, list[Definition]] = {}  # methods of classes that are led to
    used: set[str] = set()
    ready: list[Definition] = []

    def lead_to(name: str) -> None:
        if name not in used:
            used.add(name)
            ready.extend((*by_name.get(name, ()), *waiting.pop(name, ())))

    for name in names:
        lead_to(name)
    while ready:
        definition = ready.pop()
        for method in definition.methods:
            key = as_attribute(method.name)
            if key in used:
                ready.append(method)
            else:
                waiting.setdefault(key, []).append(method)
                if definition.name in open_classes or method.name in definition.reads:
                    lead_to(key)
        for name in definition.reads:
            lead_to(name)
    return frozenset(used)


def _may_be_called_unseen(name: str, by_name: Mapping[str, Sequence[Definition]], depth: int) -> bool:
    """Does a class of a name derive from one that is not there to be read, which may call any of its methods?"""
    bases = {base for definition in by_name[name] for base in definition.bases} - _QUIET
    return any(base not in by_name or not depth or _may_be_called_unseen(base, by_name, depth - 1) for base in bases)
