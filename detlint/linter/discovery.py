"""Which files does a command line mean? Folders are searched, named files are taken at their word.

Folders reached through symbolic links are not entered (there is no end to them); linked files are read once.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.config import compile_patterns
from detlint.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from detlint.config import Config, ConfigResolver

_SEARCHED_SUFFIXES = (".py", ".ipynb")
_NAMED_SUFFIXES = (*_SEARCHED_SUFFIXES, ".pyw")
_SHEBANG = re.compile(rb"#!.*\bpython")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to lint: its absolute path and its name in reports. A folder that cannot be searched stands for itself."""

    path: Path
    display: str


def discover(arguments: Iterable[str | Path], resolver: ConfigResolver) -> list[FoundFile]:
    """Return the Python files and notebooks that `arguments` (files and folders) mean, sorted, each real file once.

    Raises:
        UsageError: an argument that does not exist.
    """
    found: dict[str, str] = {}
    for argument in arguments:
        path = _absolute(Path(argument))
        if path.is_dir():
            pairs = _search(path, resolver)
        elif path.exists():
            pairs = iter([(path.resolve().as_posix(), path.as_posix())] if _is_wanted(path, resolver) else [])
        else:
            raise UsageError(f"{argument}: no such file or folder")
        for real, name in pairs:
            # Of several names for one file its own goes first, then the first in alphabetical order.
            if real not in found or (name != real, name) < (found[real] != real, found[real]):
                found[real] = name
    here = Path.cwd()
    return [FoundFile(Path(name), display_path(name, here)) for name in sorted(found.values())]


def display_path(path: str | Path, cwd: Path) -> str:
    """Return how reports name a file: with slashes, relative to the current folder if below it, always printable."""
    name, below = Path(path).as_posix(), cwd.as_posix().rstrip("/") + "/"
    return name.removeprefix(below).encode("utf-8", "backslashreplace").decode("utf-8")


def _absolute(path: Path) -> Path:
    # `link/..` is not where the text says it is.
    return path.resolve() if ".." in path.parts else path.absolute()


def _is_wanted(path: Path, resolver: ConfigResolver) -> bool:
    """Is a file named on the command line linted? Those that are not Python are passed over: hooks name any file."""
    if not path.is_file() or not _is_python(path):
        return False
    config = resolver.for_file(path)
    if not config.force_exclude:
        return True
    relative = path.relative_to(config.root).as_posix() if path.is_relative_to(config.root) else path.name
    return not compile_patterns(config.exclude).match_file(relative)


def _is_python(path: Path) -> bool:
    if "." in path.name:
        return path.name.endswith(_NAMED_SUFFIXES)
    try:
        with path.open("rb") as stream:
            return _SHEBANG.match(stream.readline(200)) is not None
    except OSError:
        return False


class _Ignores:
    """Patterns in the syntax of .gitignore, for paths below `base`, which ends in a slash."""

    def __init__(self, base: str, spec: GitIgnoreSpec) -> None:
        self.base = base
        self._spec = spec
        # One expression for all patterns: most paths match none, and this tells ten times as fast.
        parts = [pattern.regex.pattern for pattern in spec.patterns if pattern.regex is not None]
        self._any = re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", part) for part in parts) or r"(?!)")

    def verdict(self, path: str) -> bool | None:
        """Is `path` (with a final slash if a folder) ignored? None: the patterns do not say."""
        relative = path[len(self.base) :]
        if not relative or self._any.match(relative) is None:
            return None
        return self._spec.check_file(relative).include


@dataclass(frozen=True, slots=True)
class _Folder:
    """One folder of a search. `ignores` are the .gitignore files above its content, the nearest last."""

    path: str
    config: Config
    excludes: _Ignores
    ignores: tuple[_Ignores, ...]

    def leaves_out(self, entry: str) -> bool:
        """Is a path in this folder left out of the search?"""
        if self.excludes.verdict(entry):
            return True
        if self.config.respect_gitignore:
            for ignores in reversed(self.ignores):
                verdict = ignores.verdict(entry)
                if verdict is not None:
                    return verdict
        return False


def _search(start: Path, resolver: ConfigResolver) -> Iterator[tuple[str, str]]:
    """Yield the real path and the path of every file below the folder `start`, and of folders that cannot be read."""
    top, real_top = start.as_posix().rstrip("/"), start.resolve().as_posix().rstrip("/")
    first = _folder(top, top, resolver, _ignores_above(top))
    if first.config.force_exclude and first.excludes.verdict(f"{top}/"):
        return
    pending = [first]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder.path or "/") as listing:
                entries = list(listing)
        except OSError:
            yield real_top + folder.path[len(top) :], folder.path
            continue
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and folder is not first:
            continue
        if ".gitignore" in names:
            folder = replace(folder, ignores=(*folder.ignores, *_read_ignores(folder.path, ".gitignore")))
        for entry in entries:
            path = f"{folder.path}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if not folder.leaves_out(f"{path}/"):
                    pending.append(_folder(path, top, resolver, folder.ignores))
            elif entry.name.endswith(_SEARCHED_SUFFIXES) and entry.is_file() and not folder.leaves_out(path):
                yield os.path.realpath(path) if entry.is_symlink() else real_top + path[len(top) :], path


def _folder(path: str, top: str, resolver: ConfigResolver, ignores: tuple[_Ignores, ...]) -> _Folder:
    """Look up what holds in a folder. Patterns that would leave out `top`, which was asked for, apply from there on."""
    config = resolver.for_folder(Path(path))
    excludes = _excludes(config.root.as_posix().rstrip("/") + "/", config.exclude)
    if not f"{top}/".startswith(excludes.base) or (excludes.verdict(f"{top}/") and not config.force_exclude):
        excludes = _excludes(f"{top}/", config.exclude)
    return _Folder(path, config, excludes, ignores)


@lru_cache(maxsize=256)
def _excludes(base: str, patterns: tuple[str, ...]) -> _Ignores:
    return _Ignores(base, compile_patterns(patterns))


def _ignores_above(top: str) -> tuple[_Ignores, ...]:
    """Return the ignore files of the repository above `top`, less those that ignore it: it was asked for."""
    above = [top, *(parent.as_posix().rstrip("/") for parent in Path(top).parents)] if top else [top]
    root = next((index for index, folder in enumerate(above) if Path(folder, ".git").exists()), None)
    if root is None:
        return ()
    found = [*_read_ignores(above[root], ".git/info/exclude")]
    for folder in reversed(above[1 : root + 1]):
        found += _read_ignores(folder, ".gitignore")
    return tuple(ignores for ignores in found if not ignores.verdict(f"{top}/"))


def _read_ignores(folder: str, name: str) -> Iterator[_Ignores]:
    """Yield the patterns of an ignore file, if there is one. Lines that are no patterns say nothing, as in git."""
    try:
        text = Path(folder, name).read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return
    lines = tuple(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `re` warns of patterns such as [[a]
        try:
            spec = compile_patterns(lines)
        except (ValueError, re.error):
            spec = compile_patterns(tuple(line for line in lines if _is_pattern(line)))
    yield _Ignores(f"{folder}/", spec)


def _is_pattern(line: str) -> bool:
    try:
        compile_patterns((line,))
    except (ValueError, re.error):
        return False
    return True
