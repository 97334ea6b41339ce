"""What functions, methods and names say about the elements of sets: `rules/elements.toml`, validated once at load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detlint.tables import RULES_FOLDER, read_table, word_lists

_FUNCTIONS = ("numbers", "texts", "passing", "flattening", "of_numbers", "counting", "reading", "holding")
_METHODS = ("numbers", "texts", "passing")
_ATTRIBUTES = ("texts", "hashed_by_value", "of_numbers", "numbers")
_NAMES = ("numbers", "numbered", "named", "texts", "either", "alike")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ID = frozenset({"id"})
_CONTAINERS = frozenset({"set", "list", "lst", "pool", "dict", "map"})


@dataclass(frozen=True, slots=True)
class ElementTable:
    """Functions, methods, attributes and names by what they say: numbers, text, or what something else holds."""

    functions: dict[str, frozenset[str]]
    methods: dict[str, frozenset[str]]
    attributes: dict[str, frozenset[str]]
    names: dict[str, frozenset[str]]

    def names_numbers(self, name: str) -> bool:
        """`rows`, `node_idx`, `token_ids`."""
        words = _words(name)
        if _is_one_of(words[-1], _ID):
            return len(words) > 1 and _is_one_of(words[-2], self.names["numbered"])
        return _is_one_of(words[-1], self.names["numbers"])

    def names_texts(self, name: str) -> bool:
        """`words`, `class_names`, `stopWords`, `utterance_ids`."""
        words = _words(name)
        if _is_one_of(words[-1], _ID):
            return len(words) > 1 and _is_one_of(words[-2], self.names["named"])
        return _is_one_of(words[-1], self.names["texts"])

    def names_either(self, name: str) -> bool:
        """`ids`, `labels`."""
        return _is_one_of(_words(name)[-1], self.names["either"])

    def names_alike(self, name: str) -> bool:
        """`edges`, `spans`: tuples of things of one kind."""
        return _is_one_of(_words(name)[-1], self.names["alike"])


def _words(name: str) -> list[str]:
    """Return the words of a name, without last ones like those of `word_set`, `rows_used` and `topic_per_document`."""
    words = [word.lower() for word in _WORD.findall(name)]
    words = words[: words.index("per")] if "per" in words[1:] else words
    while len(words) > 1 and (words[-1] in _CONTAINERS or words[-1].endswith("ed")):
        words.pop()
    return words or [""]


def _is_one_of(word: str, among: frozenset[str]) -> bool:
    """Is a word, or its singular, one of a list?"""
    plural = {"s": word[:-1], "es": word[:-2], "ies": word[:-3] + "y"}
    return word in among or any(word.endswith(ending) and one in among for ending, one in plural.items())


@cache
def element_table(path: Path = RULES_FOLDER / "elements.toml") -> ElementTable:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    table = read_table(path, {"functions": dict, "methods": dict, "attributes": dict, "names": dict})
    sections = (
        ("functions", _FUNCTIONS),
        ("methods", _METHODS),
        ("attributes", _ATTRIBUTES),
        ("names", _NAMES),
    )
    read = {section: word_lists(path, table, section, keys) for section, keys in sections}
    return ElementTable(
        **{section: {key: frozenset(words) for key, words in lists.items()} for section, lists in read.items()}
    )
