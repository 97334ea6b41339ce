"""Which settings of a machine can change which operators? The only reader of `rules/influences.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from detlint.errors import RuleError
from detlint.tables import DEVICES, RULES_FOLDER, entries, one_of, read_table

_REQUIRED: Final = {"settings": list, "operators": list, "devices": list, "says": str, "source": str}
_OPTIONAL: Final = {"precision": bool, "dtypes": list, "elements": int}


@dataclass(frozen=True, slots=True)
class Call:
    """An operator as it ran: its name ("aten::convolution"; None where any may have run), the types of its devices,
    its dtypes, the number of elements of its largest tensor, and whether it drew random numbers.
    """

    operator: str | None
    devices: frozenset[str]
    dtypes: frozenset[str]
    elements: int
    draws: bool = False


@dataclass(frozen=True, slots=True)
class Influence:
    """Settings that can change what operators give; `settings` and `operators` are patterns.

    `precision`: by more than the order of operations does. `elements` is the size from which it matters.
    """

    settings: tuple[str, ...]
    operators: tuple[str, ...]
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    elements: int
    draws: bool
    precision: bool
    says: str

    def reaches(self, call: Call) -> bool:
        """Can it change what this call gives?"""
        return (
            (call.operator is None or _matches(call.operator, self.operators) or (self.draws and call.draws))
            and bool(call.devices & set(self.devices))
            and (not self.dtypes or bool(call.dtypes & set(self.dtypes)))
            and call.elements >= self.elements
        )

    def covers(self, setting: str) -> bool:
        """Is it about this setting ("flags.threads", "torch", "variables.MKL_CBWR")?"""
        return _matches(setting, self.settings)


@cache
def load_influences(path: Path = RULES_FOLDER / "influences.toml") -> tuple[Influence, ...]:
    """Return every entry of a table, the strongest suspects first, read and validated once.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = read_table(path, {"groups": dict, "influence": list})
    found = entries(path, table, "influence", _REQUIRED, _OPTIONAL)
    return tuple(_entry(path, where, entry, table["groups"]) for where, entry in found)


_DRAWS: Final = "draws"  # a group of its own: the trace says which operators drew random numbers


def _entry(path: Path, where: str, entry: Mapping[str, Any], groups: Mapping[str, list[str]]) -> Influence:
    for group in entry["operators"]:
        if group not in groups and group != _DRAWS:
            raise RuleError(f"{path}: {where}.operators: {group!r} is not a key of [groups]")
    return Influence(
        settings=tuple(entry["settings"]),
        operators=tuple(name for group in entry["operators"] for name in groups.get(group, ())),
        devices=tuple(one_of(path, f"{where}.devices", device, DEVICES) for device in entry["devices"]),
        dtypes=tuple(entry.get("dtypes", ())),
        elements=entry.get("elements", 0),
        draws=_DRAWS in entry["operators"],
        precision=entry.get("precision", False),
        says=entry["says"],
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
