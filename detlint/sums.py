"""How many terms does an operator add up for one element of its result? The only reader of `rules/sums.toml`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from detlint.errors import RuleError
from detlint.tables import RULES_FOLDER, entries, one_of, read_table

_REQUIRED: Final = {"operators": list, "terms": str}
_OPTIONAL: Final = {"argument": str, "stepwise": bool}

PER_RESULT: Final = "per result"
_COUNTS: Final[Mapping[str, Callable[[Sequence[int]], int]]] = {
    "last": lambda shape: math.prod(shape[-1:]),
    "second to last": lambda shape: math.prod(shape[-2:-1]),
    "all but first": lambda shape: math.prod(shape[1:]),
    "all": math.prod,
}


@dataclass(frozen=True, slots=True)
class Sum:
    """Operators, by patterns, whose `argument` tells how many terms they add up; empty for `PER_RESULT`.

    `stepwise` sums are rounded to the dtype of the result after each term.
    """

    operators: tuple[str, ...]
    argument: str
    terms: str
    stepwise: bool

    def count(self, shape: Sequence[int]) -> int:
        """Return the number of terms that the argument's shape tells of."""
        return _COUNTS[self.terms](shape)


@cache
def sums_of(name: str) -> tuple[Sum, ...]:
    """Return the entries about an operator, named without namespace and overload."""
    return tuple(item for item in load_sums() if any(fnmatchcase(name, pattern) for pattern in item.operators))


@cache
def load_sums(path: Path = RULES_FOLDER / "sums.toml") -> tuple[Sum, ...]:
    """Return every entry of a table, read and validated once.

    Raises:
        RuleError: naming file, entry, key and reason.
    """
    table = read_table(path, {"sum": list})
    return tuple(_entry(path, where, entry) for where, entry in entries(path, table, "sum", _REQUIRED, _OPTIONAL))


def _entry(path: Path, where: str, entry: Mapping[str, Any]) -> Sum:
    terms, argument = one_of(path, f"{where}.terms", entry["terms"], (*_COUNTS, PER_RESULT)), entry.get("argument", "")
    if (terms == PER_RESULT) is bool(argument):
        raise RuleError(f"{path}: {where}.argument: needed for all terms but {PER_RESULT!r}, which takes none")
    return Sum(tuple(entry["operators"]), argument, terms, entry.get("stepwise", False))
