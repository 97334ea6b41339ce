"""What methods and functions do with the memory they are given: `rules/memory.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detlint.tables import RULES_FOLDER, read_table, word_lists

_METHODS = ("form", "views", "through", "updating", "reading", "reading_argument", "like", "copying", "setting")
_FUNCTIONS = ("views", "like", "reading", "reading_first")
_LIBRARIES = ("torch", "numpy")


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """Methods by their last name, functions by their qualified name, and what they do with memory."""

    methods: dict[str, frozenset[str]]
    functions: dict[str, frozenset[str]]


@cache
def memory_table(path: Path = RULES_FOLDER / "memory.toml") -> MemoryTable:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    table = read_table(path, {"methods": dict, "functions": dict})
    methods, functions = (
        {key: frozenset(words) for key, words in word_lists(path, table, section, keys).items()}
        for section, keys in (("methods", _METHODS), ("functions", _FUNCTIONS))
    )
    methods["through"] |= methods["views"]
    functions["views"] |= {f"{library}.{name}" for library in _LIBRARIES for name in methods["views"]}
    return MemoryTable(methods, functions)
