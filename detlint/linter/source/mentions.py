"""Which files of a project mention a name? What a file does not hold as a word it neither calls nor hands on."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

from detlint.config import DEFAULT_EXCLUDE
from detlint.files import is_file
from detlint.linter.source.layout import Presence
from detlint.linter.source.notebooks import NOTEBOOK, code_of
from detlint.linter.source.words import Words, holds, is_word
from detlint.settings import compile_patterns

# Texts of a project kept in memory, in bytes: opening and reading a file takes longer than searching it.
_KEPT_BYTES = 64_000_000
# More in one folder, with nothing that marks a project, are somebody's home.
_MOST_SCRIPTS = 500
# Taking down all words of a folder's files costs as much as so many searches through them.
_SEARCHES = 32
# Searched ten times as fast as with a boundary in front.
_STAR_IMPORT = re.compile(rb"import[\s\\]*\*")


@dataclass(frozen=True, slots=True)
class Search:
    """The Python files and notebooks under `folder` that hold the word `name`.

    `found` are these, sorted, or None for more than `at_most`.
    """

    name: str
    folder: Path
    at_most: int
    found: tuple[Path, ...] | None = field(hash=False)  # what the others ask for; long


Fact = Path | Search | Presence
"""What a result rests on: a file that was read or looked for, a search, what stands somewhere."""


class Mentions:
    """Searches the files of projects as they were when the first question was asked."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[Path, ...]] = {}
        self._searched: Counter[Path] = Counter()
        self._words: dict[Path, Words] = {}
        self._searches: dict[tuple[str, Path, int], Search] = {}
        self._homes: dict[Path, bool] = {}
        self._listed: dict[Path, tuple[Words, int]] = {}  # where each file stands in the words of its project
        self._exporting: dict[tuple[Path, str], bool] = {}
        self._starring: dict[Path, bool] = {}
        self._texts: dict[Path, bytes] = {}
        self._room = _KEPT_BYTES

    def of(self, name: str, folder: Path, at_most: int) -> Search:
        """Search the Python files and notebooks under `folder` for the word `name`."""
        key = (name, folder, at_most)
        if key not in self._searches:
            found = tuple(islice(self._holding(name, folder), at_most + 1))
            self._searches[key] = Search(*key, found if len(found) <= at_most else None)
        return self._searches[key]

    def _holding(self, name: str, folder: Path) -> Iterator[Path]:
        if folder not in self._files:
            self._files[folder] = python_files(folder)
        files = self._files[folder]
        self._searched[folder] += 1
        if self._searched[folder] <= _SEARCHES or not is_word(name):
            return (path for path in files if holds(self.text(path), name))
        if folder not in self._words:
            self._words[folder] = self._list_words(files)
        return map(files.__getitem__, self._words[folder].holding(name))

    def _list_words(self, files: Sequence[Path]) -> Words:
        """List the words of files, whose texts hardly anybody asks for any more then."""
        words = Words(map(self.text, files))
        for position, path in enumerate(files):
            self._listed[path] = words, position
            self._room += len(self._texts.pop(path, b""))
        return words

    def scripts(self, folder: Path) -> Search | None:
        """Search a folder that nothing marks for what imports; None where so much stands in it as in a home."""
        if folder not in self._homes:
            self._homes[folder] = len(tuple(islice(_walk(folder), _MOST_SCRIPTS + 1))) > _MOST_SCRIPTS
        return None if self._homes[folder] else self.of("import", folder, _MOST_SCRIPTS)

    def may_export(self, path: Path, name: str) -> bool:
        """May `from … import *` get `name` from this file? Only where it holds the word, or such an import of its own.

        The files of one project ask for the same few names over and over, where a package imports all of its parts so.
        """
        key = (path, name)
        if key not in self._exporting:
            self._exporting[key] = self._holds(path, name) or self._imports_all(path)
        return self._exporting[key]

    def _holds(self, path: Path, name: str) -> bool:
        words, position = self._listed.get(path, (None, 0))
        return holds(self.text(path), name) if words is None or not is_word(name) else position in words.holding(name)

    def _imports_all(self, path: Path) -> bool:
        if path not in self._starring:
            self._starring[path] = _STAR_IMPORT.search(self.text(path)) is not None
        return self._starring[path]

    def text(self, path: Path) -> bytes:
        """Return what the file holds, as it was when this was first asked."""
        text = self._texts.get(path)
        if text is None:
            text = _bytes(path)
            if len(text) <= self._room:
                self._texts[path] = text
                self._room -= len(text)
        return text


def mentions(path: Path, name: str) -> bool:
    """Does the file hold the word `name`? One that cannot be read does not."""
    return holds(_bytes(path), name)


def _bytes(path: Path) -> bytes:
    """Return what a file holds, of a notebook its code: what it has shown may name anything."""
    if not is_file(path):
        return b""  # who opens a pipe waits for somebody to write to it
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 `Path.open` takes as long again
            content = stream.read()
            return code_of(content) if path.suffix == NOTEBOOK else content
    except OSError:
        return b""


def python_files(folder: Path) -> tuple[Path, ...]:
    """Return the Python files and notebooks of a project, sorted, but for those in environments and hidden folders."""
    return tuple(sorted(_walk(folder)))


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(name)]
        yield from (Path(place, name) for name in names if name.endswith((".py", NOTEBOOK)))


@lru_cache(maxsize=4096)
def _is_left_out(name: str) -> bool:
    return name.startswith(".") or compile_patterns(DEFAULT_EXCLUDE).match_file(f"{name}/")
