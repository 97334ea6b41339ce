"""Which operations round and which hand on their bits: `rules/rounding.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from detlint.rulebook import check_keys, read_toml, rules_folder

_NAMES = ("rounding", "floating", "keeping", "adding", "fractions", "results")
_EXACT = ("calls", "words")


@dataclass(frozen=True, slots=True)
class RoundingTable:
    """Names by what they do to floats; `exact_calls` and `exact_words` mark code in which bits are meant to be kept."""

    rounding: frozenset[str]
    floating: frozenset[str]
    keeping: frozenset[str]
    adding: frozenset[str]
    fractions: frozenset[str]
    results: frozenset[str]
    exact_calls: frozenset[str]
    exact_words: tuple[str, ...]


@lru_cache(maxsize=1)
def rounding_table() -> RoundingTable:
    """Read `rules/rounding.toml`.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    path = rules_folder() / "rounding.toml"
    table = read_toml(path)
    check_keys(path, table, {"names": dict, "exact": dict}, {})
    check_keys(path, table["names"], dict.fromkeys(_NAMES, list), {}, "names")
    check_keys(path, table["exact"], dict.fromkeys(_EXACT, list), {}, "exact")
    return RoundingTable(
        **{name: frozenset(table["names"][name]) for name in _NAMES},
        exact_calls=frozenset(table["exact"]["calls"]),
        exact_words=tuple(table["exact"]["words"]),
    )
