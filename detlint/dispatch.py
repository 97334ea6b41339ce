"""Which operators does a recorded one stand for on a device? `rules/dispatch.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from detlint.conditions import Arguments, Truth, check_condition, holds
from detlint.tables import DEVICES, RULES_FOLDER, entries, one_of, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIRED: Final[Mapping[str, type]] = {"traced": list, "runs": list, "devices": list, "source": str}
_OPTIONAL: Final[Mapping[str, type]] = {"modules": list, "settings": list, "parameters": list, "when": dict}


@dataclass(frozen=True, slots=True)
class Dispatch:
    """On `devices` the operators `traced`, and what ran inside `modules`, execute `runs`.

    It holds where every one of `settings` (names of flags) is on and `when` holds for the call.
    """

    traced: tuple[str, ...]
    modules: tuple[str, ...]
    runs: tuple[str, ...]
    devices: tuple[str, ...]
    settings: tuple[str, ...]
    source: str
    when: Mapping[str, Any] = field(hash=False)

    def applies(self, arguments: Arguments) -> Truth:
        """Does the condition hold for this call? Device and settings are not looked at."""
        return holds(self.when, arguments)


@cache
def load_dispatch(path: Path = RULES_FOLDER / "dispatch.toml") -> tuple[Dispatch, ...]:
    """Return every entry of a table in the order of the file, read and validated once.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = read_table(path, {"dispatch": list})
    return tuple(_entry(path, where, entry) for where, entry in entries(path, table, "dispatch", _REQUIRED, _OPTIONAL))


def _entry(path: Path, where: str, entry: Mapping[str, Any]) -> Dispatch:
    when = entry.get("when", {})
    check_condition(path, f"{where}.when", when, {"input", *entry.get("parameters", ())})
    return Dispatch(
        traced=tuple(entry["traced"]),
        modules=tuple(entry.get("modules", ())),
        runs=tuple(entry["runs"]),
        devices=tuple(one_of(path, f"{where}.devices", device, DEVICES) for device in entry["devices"]),
        settings=tuple(entry.get("settings", ())),
        source=entry["source"],
        when=when,
    )
