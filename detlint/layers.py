"""Which layers depend on the mode, and which ready-made models hold them: the only reader of `rules/layers.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from detlint.randomness import NameTable
from detlint.rulebook import Trigger, parse_trigger
from detlint.tables import RULES_FOLDER, entries, read_table, word_lists


@dataclass(frozen=True, slots=True)
class Layer:
    """A constructor of a layer; `rate` is the parameter that must be above zero for the mode to matter, or empty.

    `stacked` is the parameter that counts layers of which all but the last drop: with one of them nothing does.
    """

    call: Trigger
    rate: str
    stacked: str = ""


@dataclass(frozen=True, slots=True)
class ReadyMade:
    """A constructor of a whole model: does it hold layers that depend on the mode?

    `named` is the parameter that says which model; `only` and `excluded` are patterns for it.
    """

    holds: bool
    named: str = ""
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def holds_for(self, name: str | None) -> bool | None:
        """Return the answer for a model's name (None: not known); None where the table cannot tell."""
        if not self.named:
            return self.holds
        if name is None:
            return None if self.only else self.holds
        if any(fnmatchcase(name, pattern) for pattern in self.excluded):
            return not self.holds
        if self.only and not any(fnmatchcase(name, pattern) for pattern in self.only):
            return None
        return self.holds


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """`rules/layers.toml`."""

    layers: NameTable[Layer]
    steady: NameTable[bool]
    models: NameTable[ReadyMade]


@cache
def load_layers(path: Path = RULES_FOLDER / "layers.toml") -> Layers:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names file, key and reason.
    """
    table = read_table(path, {"layer": list, "steady": dict, "model": list})
    return Layers(
        layers=NameTable(_layers(path, table)),
        steady=NameTable((name, True) for name in word_lists(path, table, "steady", ["names"])["names"]),
        models=NameTable(_models(path, table)),
    )


def _layers(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, Layer]]:
    for _, entry in entries(path, table, "layer", {"calls": list}, {"rate": str, "stacked": str}):
        for text in entry["calls"]:
            call = parse_trigger(path, text)
            yield call.name, Layer(call, entry.get("rate", ""), entry.get("stacked", ""))


def _models(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, ReadyMade]]:
    optional = {"named": str, "only": list, "except": list}
    for _, entry in entries(path, table, "model", {"holds": bool, "names": list}, optional):
        only, excluded = tuple(entry.get("only", ())), tuple(entry.get("except", ()))
        for name in entry["names"]:
            yield name, ReadyMade(entry["holds"], entry.get("named", ""), only, excluded)
