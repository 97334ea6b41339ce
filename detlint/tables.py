"""How the tables in `rules/` are read: what a file must hold; an error is one line that names file, key and reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import tomli

from detlint.errors import RuleError, did_you_mean

Keys = Mapping[str, type]
_NONE: Final[Keys] = {}

DEVICES: Final = ("cpu", "cuda", "mps")
PASSES: Final = ("forward", "backward")


def _rules_folder() -> Path:
    package = Path(__file__).resolve().parent
    shipped = package / "_rules"
    return shipped if shipped.is_dir() else package.parent / "rules"


# At the top level of the repository, and inside the wheel.
RULES_FOLDER: Final = _rules_folder()


def read_table(path: Path, required: Keys, optional: Keys = _NONE) -> dict[str, Any]:
    """Read a TOML file that holds all of the keys `required`, nothing but both, each of its type.

    Raises:
        RuleError: it cannot be read, is no TOML or holds something else; names file, key and reason.
    """
    try:
        table = tomli.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise RuleError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: not valid TOML: {error}") from None
    check_keys(path, table, required, optional)
    return table


def word_lists(path: Path, table: Mapping[str, Any], section: str, keys: Collection[str]) -> dict[str, list[str]]:
    """Return a section that holds lists of words under `keys` and nothing else, in the order of `keys`."""
    check_keys(path, table[section], dict.fromkeys(keys, list), where=section)
    return {key: list(word_list(path, table[section], key, where=section)) for key in keys}


def word_list(path: Path, table: Mapping[str, Any], key: str, where: str = "") -> tuple[str, ...]:
    """Return the list of words under `key`, which may be missing; `where` is the section that it stands in."""
    found = tuple(table.get(key, ()))
    if not all(isinstance(word, str) for word in found):
        raise RuleError(f"{path}: {where}{'.' if where else ''}{key}: expected a list of strings")
    return found


def entries(
    path: Path, table: Mapping[str, Any], key: str, required: Keys, optional: Keys = _NONE
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a list of tables, each with what errors call it ("key[1]"), their keys checked."""
    for number, entry in enumerate(table.get(key, ()), start=1):
        where = f"{key}[{number}]"
        check_keys(path, entry, required, optional, where)
        yield where, entry


def check_keys(path: Path, table: object, required: Keys, optional: Keys = _NONE, where: str = "") -> None:
    """Raise RuleError unless `table` holds all of `required`, nothing but both, each of its type."""
    prefix = f"{path}: {where}{'.' if where else ''}"
    if not isinstance(table, dict):
        raise RuleError(f"{path}: {where}: expected a table")
    allowed = {**required, **optional}
    for key in required:
        if key not in table:
            raise RuleError(f"{prefix}{key}: missing")
    for key, value in table.items():
        if key not in allowed:
            raise RuleError(f"{prefix}{key}: unknown key{did_you_mean(key, allowed)}")
        if not isinstance(value, allowed[key]):
            raise RuleError(f"{prefix}{key}: expected {allowed[key].__name__}, got {type(value).__name__}")


def one_of(path: Path, where: str, word: object, allowed: Collection[str]) -> str:
    """Return a word of the vocabulary `allowed`, or raise RuleError."""
    if word not in allowed:
        near = did_you_mean(str(word), allowed)
        raise RuleError(f"{path}: {where}: {word!r} is not one of {', '.join(allowed)}{near}")
    return str(word)
