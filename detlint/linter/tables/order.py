"""What functions and methods do with the order of a sequence: `rules/order.toml`, validated once at load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detlint.rulebook import load_rules
from detlint.tables import RULES_FOLDER, read_table, word_lists

_FUNCTIONS = (
    "carrying",
    "copying",
    "keying",
    "flattening",
    "splitting",
    "joining",
    "mapping",
    "pairing",
    "unwritten",
    "growing",
    "numbering-nodes",
    "sorting",
    "receiving",
    "registering",
    "receiving-endings",
    "indifferent",
    "hashing",
    "opening",
    "reading",
    "adding",
    "workers",
    "queues",
    "gathering",
    "threads",
    "submitting",
    "notifying",
    "membership",
    "bases",
    "showing",
    "ordered-sets",
    "temporary",
    "unique",
    "compiling",
    "running",
)
# How names begin or end; the others are whole names.
_ENDS = ("receiving-endings", "indifferent")
_METHODS = (
    "hooking",
    "carrying",
    "rows",
    "records",
    "picking",
    "sorting",
    "serializing",
    "drawing",
    "receiving",
    "choosing",
    "numbering",
    "appending",
    "extending",
    "writing",
    "mapping",
    "adding",
    "training",
    "storing",
    "entering",
    "filing",
    "removing",
    "passing",
    "keeping",
    "changing",
    "averaging",
    "accumulating",
    "gathering",
    "starting",
    "idle",
    "membership",
    "walking",
    "resetting",
    "asserting",
)
_WORDS = (
    "complaints",
    "cleaning",
    "lookups",
    "descriptions",
    "progress",
    "durations",
    "patterns",
    "files",
    "asking",
    "tables",
    "forms",
    "keyed",
    "commands",
    "menus",
    "views",
)


@dataclass(frozen=True, slots=True)
class OrderTable:
    """`functions` and `methods` by what they do with an order; people alone read `complaints` and `descriptions`."""

    functions: dict[str, frozenset[str]]
    methods: dict[str, frozenset[str]]
    receiving_endings: tuple[str, ...]
    complaints: tuple[str, ...]
    cleaning: frozenset[str]
    lookups: tuple[str, ...]
    descriptions: frozenset[str]
    progress: tuple[str, ...]
    durations: frozenset[str]
    patterns: frozenset[str]
    files: tuple[str, ...]
    indifferent: tuple[str, ...]
    asking: re.Pattern[str]
    tables: frozenset[str]
    forms: frozenset[str]
    keyed: frozenset[str]
    commands: frozenset[str]
    menus: re.Pattern[str]
    views: frozenset[str]


@cache
def order_table(path: Path = RULES_FOLDER / "order.toml") -> OrderTable:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    table = read_table(path, {"functions": dict, "methods": dict, "words": dict})
    functions = word_lists(path, table, "functions", _FUNCTIONS)
    methods = word_lists(path, table, "methods", _METHODS)
    said = word_lists(path, table, "words", _WORDS)
    return OrderTable(
        functions={key: frozenset(functions[key]) for key in _FUNCTIONS if key not in _ENDS},
        methods={key: frozenset(names) for key, names in methods.items()},
        receiving_endings=tuple(functions["receiving-endings"]),
        complaints=tuple(said["complaints"]),
        cleaning=frozenset(said["cleaning"]),
        lookups=tuple(said["lookups"]),
        descriptions=frozenset(said["descriptions"]),
        progress=tuple(said["progress"]),
        durations=frozenset(said["durations"]),
        patterns=frozenset(said["patterns"]),
        files=tuple(said["files"]),
        indifferent=tuple(functions["indifferent"]),
        asking=re.compile(f"_*({'|'.join(said['asking'])})(_|$)", re.IGNORECASE),
        tables=frozenset(said["tables"]),
        forms=frozenset(said["forms"]),
        keyed=frozenset(said["keyed"]),
        commands=frozenset(said["commands"]),
        menus=re.compile("|".join(said["menus"]), re.IGNORECASE),
        views=frozenset(said["views"]),
    )


@cache
def listings() -> frozenset[str]:
    """Return the functions that list files in no fixed order: those of which DET601 speaks."""
    return frozenset(load_rules()["DET601"].triggers_by_name)
