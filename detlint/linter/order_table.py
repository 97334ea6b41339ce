"""What functions and methods do with the order of a sequence: `rules/order.toml`, validated once at load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from detlint.rulebook import check_keys, read_toml, rules_folder

_FUNCTIONS = ("carrying", "sorting", "receiving", "registering", "receiving-endings")
_METHODS = (
    "carrying",
    "sorting",
    "receiving",
    "choosing",
    "numbering",
    "appending",
    "extending",
    "writing",
    "mapping",
    "adding",
    "storing",
    "passing",
    "keeping",
)
_WORDS = ("complaints", "lookups", "descriptions", "progress")


@dataclass(frozen=True, slots=True)
class OrderTable:
    """`functions` and `methods` by what they do with an order; people alone read `complaints` and `descriptions`."""

    functions: dict[str, frozenset[str]]
    methods: dict[str, frozenset[str]]
    receiving_endings: tuple[str, ...]
    complaints: tuple[str, ...]
    lookups: tuple[str, ...]
    descriptions: frozenset[str]
    progress: tuple[str, ...]


@lru_cache(maxsize=1)
def order_table() -> OrderTable:
    """Read `rules/order.toml`.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    path = rules_folder() / "order.toml"
    table = read_toml(path)
    check_keys(path, table, {"functions": dict, "methods": dict, "words": dict}, {})
    check_keys(path, table["functions"], dict.fromkeys(_FUNCTIONS, list), {}, "functions")
    check_keys(path, table["methods"], dict.fromkeys(_METHODS, list), {}, "methods")
    check_keys(path, table["words"], dict.fromkeys(_WORDS, list), {}, "words")
    functions = table["functions"]
    return OrderTable(
        functions={key: frozenset(functions[key]) for key in ("carrying", "sorting", "receiving", "registering")},
        methods={key: frozenset(names) for key, names in table["methods"].items()},
        receiving_endings=tuple(functions["receiving-endings"]),
        complaints=tuple(table["words"]["complaints"]),
        lookups=tuple(table["words"]["lookups"]),
        descriptions=frozenset(table["words"]["descriptions"]),
        progress=tuple(table["words"]["progress"]),
    )
