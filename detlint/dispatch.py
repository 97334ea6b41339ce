"""Which operators does a recorded one stand for on a device? `rules/dispatch.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from detlint.conditions import Arguments, Truth, check_condition, holds
from detlint.errors import RuleError
from detlint.operators import DEVICES
from detlint.rulebook import check_keys, read_toml, rules_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


@lru_cache(maxsize=1)
def load_dispatch() -> tuple[Dispatch, ...]:
    """Return every entry of the built-in table, in the order of the file.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    return read_dispatch(rules_folder() / "dispatch.toml")


def read_dispatch(path: Path) -> tuple[Dispatch, ...]:
    """Read and validate a table.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = read_toml(path)
    check_keys(path, table, {"dispatch": list}, {})
    return tuple(_entry(path, f"dispatch[{number}]", entry) for number, entry in enumerate(table["dispatch"], 1))


def _entry(path: Path, where: str, entry: Any) -> Dispatch:
    check_keys(path, entry, _REQUIRED, _OPTIONAL, where)
    for device in entry["devices"]:
        if device not in DEVICES:
            raise RuleError(f"{path}: {where}.devices: {device!r} is not one of {', '.join(DEVICES)}")
    when = entry.get("when", {})
    check_condition(path, f"{where}.when", when, {"input", *entry.get("parameters", ())})
    return Dispatch(
        traced=tuple(entry["traced"]),
        modules=tuple(entry.get("modules", ())),
        runs=tuple(entry["runs"]),
        devices=tuple(entry["devices"]),
        settings=tuple(entry.get("settings", ())),
        source=entry["source"],
        when=when,
    )
