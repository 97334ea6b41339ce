"""Which operations round and which hand on their bits: `rules/rounding.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detlint.tables import RULES_FOLDER, read_table, word_lists

_NAMES = (
    "rounding",
    "floating",
    "keeping",
    "adding",
    "linear",
    "drawing",
    "elementwise",
    "fractions",
    "draws",
    "results",
    "measures",
    "counted",
    "operations",
    "entries",
    "parts",
    "floats",
    "preparing",
    "reading",
    "compiling",
    "kernels",
    "shares",
    "layers",
    "moving",
    "holding",
    "expecting",
    "variants",
    "engines",
    "sessions",
    "runners",
    "libraries",
    "joining",
    "models",
    "sizes",
    "whole",
    "switches",
)
_EXACT = ("flags", "messages", "words")


@dataclass(frozen=True, slots=True)
class RoundingTable:
    """Names by what they do to floats; `exact_words` and their like mark code that asks for equal bits."""

    rounding: frozenset[str]
    floating: frozenset[str]
    keeping: frozenset[str]
    adding: frozenset[str]
    linear: frozenset[str]
    drawing: frozenset[str]
    elementwise: frozenset[str]
    fractions: frozenset[str]
    draws: frozenset[str]
    results: frozenset[str]
    measures: frozenset[str]
    counted: frozenset[str]
    operations: frozenset[str]
    entries: frozenset[str]
    parts: frozenset[str]
    floats: frozenset[str]
    preparing: frozenset[str]
    reading: frozenset[str]
    compiling: frozenset[str]
    kernels: frozenset[str]
    shares: frozenset[str]
    layers: frozenset[str]
    moving: tuple[str, ...]
    holding: frozenset[str]
    expecting: frozenset[str]
    variants: frozenset[str]
    engines: frozenset[str]
    sessions: frozenset[str]
    runners: frozenset[str]
    libraries: frozenset[str]
    joining: frozenset[str]
    models: frozenset[str]
    sizes: frozenset[str]
    whole: frozenset[str]
    switches: frozenset[str]
    exact_flags: tuple[str, ...]
    exact_messages: tuple[str, ...]
    exact_words: tuple[str, ...]


@cache
def rounding_table(path: Path = RULES_FOLDER / "rounding.toml") -> RoundingTable:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    table = read_table(path, {"names": dict, "exact": dict})
    names, exact = word_lists(path, table, "names", _NAMES), word_lists(path, table, "exact", _EXACT)
    return RoundingTable(
        **{name: frozenset(names[name]) for name in _NAMES if name != "moving"},
        moving=tuple(names["moving"]),
        exact_flags=tuple(exact["flags"]),
        exact_messages=tuple(exact["messages"]),
        exact_words=tuple(exact["words"]),
    )
