"""Which settings of a machine can change which operators? The only reader of `rules/influences.toml`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from detlint.errors import RuleError
from detlint.operators import DEVICES
from detlint.rulebook import check_keys, read_toml, rules_folder

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


@lru_cache(maxsize=1)
def load_influences() -> tuple[Influence, ...]:
    """Return every entry of the built-in table, the strongest suspects first.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    return read_influences(rules_folder() / "influences.toml")


def read_influences(path: Path) -> tuple[Influence, ...]:
    """Read and validate a table.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = read_toml(path)
    check_keys(path, table, {"groups": dict, "influence": list}, {})
    groups: dict[str, list[str]] = table["groups"]
    return tuple(
        _entry(path, f"influence[{number}]", entry, groups) for number, entry in enumerate(table["influence"], 1)
    )


_DRAWS: Final = "draws"  # a group of its own: the trace says which operators drew random numbers


def _entry(path: Path, where: str, entry: Any, groups: dict[str, list[str]]) -> Influence:
    check_keys(path, entry, _REQUIRED, _OPTIONAL, where)
    for device in entry["devices"]:
        if device not in DEVICES:
            raise RuleError(f"{path}: {where}.devices: {device!r} is not one of {', '.join(DEVICES)}")
    for group in entry["operators"]:
        if group not in groups and group != _DRAWS:
            raise RuleError(f"{path}: {where}.operators: {group!r} is not a key of [groups]")
    return Influence(
        settings=tuple(entry["settings"]),
        operators=tuple(name for group in entry["operators"] for name in groups.get(group, ())),
        devices=tuple(entry["devices"]),
        dtypes=tuple(entry.get("dtypes", ())),
        elements=entry.get("elements", 0),
        draws=_DRAWS in entry["operators"],
        precision=entry.get("precision", False),
        says=entry["says"],
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
