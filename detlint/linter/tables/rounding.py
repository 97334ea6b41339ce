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
    "picking",
    "adding",
    "summing",
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
    "signs",
    "converting",
    "preparing",
    "reading",
    "compiling",
    "programs",
    "kernels",
    "shares",
    "layers",
    "moving",
    "engines",
    "sessions",
    "runners",
    "loaders",
    "libraries",
    "joining",
    "normalized",
    "centred",
    "models",
    "sizes",
    "whole",
    "switches",
)
_EXACT = ("calls", "round_trips", "loading", "saving", "seeding", "flags", "messages", "words")


@dataclass(frozen=True, slots=True)
class RoundingTable:
    """Names by what they do to floats; `exact_calls` and `exact_words` mark code in which bits are meant to be kept."""

    rounding: frozenset[str]
    floating: frozenset[str]
    keeping: frozenset[str]
    picking: frozenset[str]
    adding: frozenset[str]
    summing: frozenset[str]
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
    signs: frozenset[str]
    converting: frozenset[str]
    preparing: frozenset[str]
    reading: frozenset[str]
    compiling: frozenset[str]
    programs: frozenset[str]
    kernels: frozenset[str]
    shares: frozenset[str]
    layers: frozenset[str]
    moving: tuple[str, ...]
    engines: frozenset[str]
    sessions: frozenset[str]
    runners: frozenset[str]
    loaders: frozenset[str]
    libraries: frozenset[str]
    joining: frozenset[str]
    normalized: frozenset[str]
    centred: frozenset[str]
    models: frozenset[str]
    sizes: frozenset[str]
    whole: frozenset[str]
    switches: frozenset[str]
    loading: frozenset[str]
    saving: tuple[str, ...]
    exact_calls: frozenset[str]
    round_trips: tuple[tuple[str, str], ...]
    seeding: frozenset[str]
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
        loading=frozenset(exact["loading"]),
        saving=tuple(exact["saving"]),
        seeding=frozenset(exact["seeding"]),
        exact_calls=frozenset(exact["calls"]),
        round_trips=tuple((pair.split()[0], pair.split()[-1]) for pair in exact["round_trips"]),
        exact_flags=tuple(exact["flags"]),
        exact_messages=tuple(exact["messages"]),
        exact_words=tuple(exact["words"]),
    )
