"""Which operators can differ, when, and what to do: `rules/operators.toml`, validated once at load.

Linter and auditor draw on this one table. The linter looks operators up by public name (`by_python_name`) and
the auditor by aten name (`by_aten_name`); both ask `Operator.applies` whether the condition holds for a call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from detlint.conditions import Arguments, Truth, check_condition, holds
from detlint.errors import RuleError, UsageError, did_you_mean
from detlint.rulebook import Trigger, parse_trigger
from detlint.tables import DEVICES, PASSES, RULES_FOLDER, check_keys, one_of, read_table, word_lists

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Version = tuple[int, int]

OLDEST: Final = "1.8"
NEWEST: Final = "2.15"
# The newest one that was run for the table; what it says of later ones is read from their sources and binaries, and few
# projects run them yet. It is meant where nothing names a release.
CONFIRMED: Final = "2.13"

CAUSES: Final[Mapping[str, str]] = {
    "atomic-add": "threads add floats into the same place in the order they happen to finish",
    "atomic-multiply": "threads multiply floats into the same place in the order they happen to finish",
    "duplicate-index-race": "several values are written to the same place and any of them can win",
    "tie-order": "equal elements are put in an order, or one of them chosen, that nothing fixes",
    "uninitialized": "memory is handed out with whatever it held before",
    "algorithm-choice": "the library picks one of several algorithms by timing, free memory or availability",
    "split-k": "a sum is cut into parts that are added in the order they happen to finish",
    "scan-order": "a running sum is joined from blocks in the order they happen to finish",
    "collective-order": "a sum over devices is taken in an order that depends on topology and algorithm",
}
WITH_FLAG: Final[Mapping[str, str]] = {
    "deterministic": "is deterministic under torch.use_deterministic_algorithms(True)",
    "error": "raises under torch.use_deterministic_algorithms(True)",
    "unaffected": "differs even under torch.use_deterministic_algorithms(True)",
}
EVIDENCE: Final[Mapping[str, str]] = {
    "measured": "different bytes were seen in repeated runs",
    "alert": "a call of the nondeterminism alert in the published binary",
    "kernel": "float atomics in the published machine code or a documented race in the source",
    "docs": "stated by the library's documentation or maintainers",
}

_REQUIRED: Final[Mapping[str, type]] = {
    "name": str,
    "devices": list,
    "pass": list,
    "with-flag": str,
    "cause": str,
    "instead": str,
    "evidence": str,
    "source": list,
}
_OPTIONAL: Final[Mapping[str, type]] = {
    "aten": list,
    "forward": list,
    "python": list,
    "aten-parameters": list,
    "when": dict,
    "exact-when": dict,
    "only-in-training": bool,
    "only-learned": bool,
    "only-repeating": bool,
    "only-indices": bool,
    "with-warn-only": str,
    "since": str,
    "until": str,
    "auditor-only": str,
    "chosen-by": dict,
    "chosen-unless": str,
    "note": str,
}
_WORDS: Final[Mapping[str, Collection[str]]] = {
    "devices": DEVICES,
    "pass": PASSES,
    "with-flag": WITH_FLAG,
    "with-warn-only": WITH_FLAG,
    "cause": CAUSES,
    "evidence": EVIDENCE,
}
_ATEN_NAME: Final = re.compile(r"\w+::\w+(\.\w+)?")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Operator:
    """One way in which an operator can differ from run to run, through a range of releases.

    Entries of one name are the same hazard in different releases.
    `aten` names the operators that hold the hazard when they execute: one overload, or all overloads of a
    name. `forward` names those whose derivative executes them, `python` the public names with signatures.
    The entry is in force from release `since` on and no longer in release `until`. `auditor_only` is why the
    linter leaves the entry alone (empty: it does not), and `table` the entry as it stands in the file. Where
    `exact_when` holds as well, the result is the same every time although torch raises its alert; the linter is then
    silent where nobody asks for deterministic algorithms. What is `only_in_training` it reports in files that train,
    what is `only_learned` on tensors that are known to come out of layers or weights, and what is `only_repeating`
    where something says that the index names places more than once. Where `only_indices` can differ, the values are the
    same each time. `chosen_by` holds the options by which other libraries are told to call it, each with its words, and
    `chosen_unless` the environment variable under which they ask for its deterministic form.
    """

    name: str
    aten: tuple[str, ...]
    forward: tuple[str, ...]
    python: tuple[Trigger, ...]
    devices: tuple[str, ...]
    passes: tuple[str, ...]
    with_flag: str
    with_warn_only: str
    since: Version
    until: Version | None
    cause: str
    evidence: str
    instead: str
    auditor_only: str
    note: str
    source: tuple[str, ...]
    when: Mapping[str, Any] = field(hash=False)
    exact_when: Mapping[str, Any] | None = field(hash=False)
    only_in_training: bool
    only_learned: bool
    only_repeating: bool
    only_indices: bool
    chosen_by: Mapping[str, Sequence[str]] = field(hash=False)
    chosen_unless: str
    table: Mapping[str, Any] = field(hash=False, compare=False, repr=False)

    @property
    def rule(self) -> str:
        """Code of the rule that reports this entry."""
        if all(not name.startswith("aten::") for name in self.aten) and not self._is_torch:
            return "DET306"
        if self.cause == "uninitialized":
            return "DET303"
        if self.with_flag == "error":
            return "DET301"
        by_cause = {"tie-order": "DET304", "duplicate-index-race": "DET305"}
        by_flag = {"deterministic": "DET302", "unaffected": "DET301"}
        return by_cause.get(self.cause, by_flag[self.with_flag])

    @property
    def _is_torch(self) -> bool:
        return any(trigger.name.startswith("torch.") for trigger in self.python)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which one may look for this entry."""
        return (self.name, *self.aten, *self.forward, *(trigger.name for trigger in self.python))

    def applies(self, arguments: Arguments) -> Truth:
        """Does the condition hold for this call? Device, pass and version are not looked at."""
        return holds(self.when, arguments)

    def is_exact(self, arguments: Arguments) -> Truth:
        """Is nothing but the alert left of the hazard with these arguments?"""
        return Truth.NO if self.exact_when is None else holds(self.exact_when, arguments)


def in_force(
    operators: Iterable[Operator],
    *,
    torch_version: str = CONFIRMED,
    devices: Collection[str] = DEVICES,
    passes: Collection[str] = PASSES,
) -> tuple[Operator, ...]:
    """Which entries hold in this release of torch, on one of these devices, in one of these passes?"""
    version = parse_version(torch_version)
    return tuple(
        operator
        for operator in operators
        if operator.since <= version
        and (operator.until is None or version < operator.until)
        and not set(devices).isdisjoint(operator.devices)
        and not set(passes).isdisjoint(operator.passes)
    )


def matching(operators: Iterable[Operator], words: Collection[str]) -> tuple[Operator, ...]:
    """Return the entries that hold one of these words in one of their names."""
    return tuple(
        operator
        for operator in operators
        if any(word.lower() in name.lower() for word in words for name in operator.names)
    )


def by_python_name(operators: Iterable[Operator]) -> dict[str, tuple[Operator, ...]]:
    """Return the entries of every public name, in the order of the table."""
    found: dict[str, tuple[Operator, ...]] = {}
    for operator in operators:
        for trigger in operator.python:
            found[trigger.name] = (*found.get(trigger.name, ()), operator)
    return found


def by_aten_name(operators: Iterable[Operator]) -> dict[str, tuple[Operator, ...]]:
    """Return the entries of every aten name in the table; without overload a name stands for all of them."""
    found: dict[str, tuple[Operator, ...]] = {}
    for operator in operators:
        for name in operator.aten:
            found[name] = (*found.get(name, ()), operator)
    return found


def parse_version(text: str) -> Version:
    """Parse the release out of "2.13", "2.13.0+cpu" …

    Raises:
        UsageError: the text does not begin with a release.
    """
    found = _VERSION.match(text)
    if found is None:
        raise UsageError(f"torch version {text!r}: expected a release such as {NEWEST}")
    return int(found[1]), int(found[2])


@cache
def load_operators(path: Path = RULES_FOLDER / "operators.toml") -> tuple[Operator, ...]:
    """Return every entry of a table in the order of the file, read and validated once.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = {"also-under": {}, **read_table(path, {"signatures": list, "operator": list}, {"also-under": dict})}
    signatures = {trigger.name: trigger for trigger in (parse_trigger(path, text) for text in table["signatures"])}
    also_under = word_lists(path, table, "also-under", table["also-under"])
    spellings = {name: _spellings(trigger, also_under) for name, trigger in signatures.items()}
    operators = [_operator(path, number, entry, spellings) for number, entry in enumerate(table["operator"], start=1)]
    for position, operator in enumerate(operators):
        if any(operator.name == other.name and _overlap(operator, other) for other in operators[:position]):
            raise RuleError(f"{path}: operator {operator.name!r}: two entries of that name hold in one release")
    used = {trigger.name for operator in operators for trigger in operator.python}
    for name in signatures:
        if name not in used:
            raise RuleError(f"{path}: signatures: no operator names {name!r}")
    return tuple(operators)


def _spellings(trigger: Trigger, also_under: Mapping[str, list[str]]) -> tuple[Trigger, ...]:
    """Return a public name as it is and as other packages offer it."""
    owner, _, last = trigger.name.rpartition(".")
    return (trigger, *(replace(trigger, name=f"{package}.{last}") for package in also_under.get(owner, ())))


def _overlap(operator: Operator, other: Operator) -> bool:
    return (other.until is None or operator.since < other.until) and (
        operator.until is None or other.since < operator.until
    )


# Under warn_only=True what would raise only warns, and its results differ as before.
_UNDER_WARN_ONLY: Final = {
    "deterministic": "deterministic",
    "error": "unaffected",
    "unaffected": "unaffected",
}


def _operator(path: Path, number: int, entry: Any, signatures: Mapping[str, tuple[Trigger, ...]]) -> Operator:
    name = entry.get("name") if isinstance(entry, dict) else None
    where = f"operator {name!r}" if isinstance(name, str) else f"operator[{number}]"
    check_keys(path, entry, _REQUIRED, _OPTIONAL, where)
    _check_words(path, where, entry)
    for key in ("aten", "forward"):
        for text in entry.get(key, ()):
            if _ATEN_NAME.fullmatch(text) is None:
                raise RuleError(f"{path}: {where}.{key}: {text!r} is not 'aten::name' or 'aten::name.overload'")
    for text in entry.get("python", ()):
        if text not in signatures:
            raise RuleError(f"{path}: {where}.python: {text!r} has no signature{did_you_mean(text, signatures)}")
    if not entry.get("aten") and not entry.get("python"):
        raise RuleError(f"{path}: {where}: neither aten nor python names an operator")
    triggers = tuple(trigger for text in entry.get("python", ()) for trigger in signatures[text])
    parameters = {parameter.name for trigger in triggers for parameter in trigger.parameters}
    parameters.update(["input", *entry.get("aten-parameters", ())])
    for key in ("when", "exact-when"):
        check_condition(path, f"{where}.{key}", entry.get(key, {}), parameters)
    if "exact-when" in entry and entry["with-flag"] != "error":
        raise RuleError(f"{path}: {where}.exact-when: only what raises can be exact and still be reported")
    return Operator(
        name=entry["name"],
        aten=tuple(entry.get("aten", ())),
        forward=tuple(entry.get("forward", ())),
        python=triggers,
        devices=tuple(entry["devices"]),
        passes=tuple(entry["pass"]),
        with_flag=entry["with-flag"],
        with_warn_only=entry.get("with-warn-only", _UNDER_WARN_ONLY[entry["with-flag"]]),
        since=_release(path, where, entry, "since") or parse_version(OLDEST),
        until=_release(path, where, entry, "until"),
        cause=entry["cause"],
        evidence=entry["evidence"],
        instead=entry["instead"],
        auditor_only=entry.get("auditor-only", ""),
        note=entry.get("note", ""),
        source=tuple(entry["source"]),
        when=entry.get("when", {}),
        exact_when=entry.get("exact-when"),
        only_in_training=entry.get("only-in-training", False),
        only_learned=entry.get("only-learned", False),
        only_repeating=entry.get("only-repeating", False),
        only_indices=entry.get("only-indices", False),
        chosen_by=word_lists(path, {"chosen-by": {}, **entry}, "chosen-by", entry.get("chosen-by", {})),
        chosen_unless=entry.get("chosen-unless", ""),
        table=entry,
    )


def _check_words(path: Path, where: str, entry: Mapping[str, Any]) -> None:
    for key in ("aten", "forward", "python", "devices", "pass", "source", "aten-parameters"):
        if key in entry and (not entry[key] or not all(isinstance(word, str) for word in entry[key])):
            raise RuleError(f"{path}: {where}.{key}: expected a list of at least one string")
    for key, allowed in _WORDS.items():
        value = entry.get(key, [])
        for word in [value] if isinstance(value, str) else value:
            one_of(path, f"{where}.{key}", word, allowed)


def _release(path: Path, where: str, entry: Mapping[str, Any], key: str) -> Version | None:
    if key not in entry:
        return None
    if _VERSION.fullmatch(entry[key]) is None:
        raise RuleError(f"{path}: {where}.{key}: {entry[key]!r} is not a release such as {NEWEST!r}")
    return parse_version(entry[key])
