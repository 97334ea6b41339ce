"""Which files does a command line mean? Folders are searched, named files are taken at their word.

Folders reached through symbolic links are not entered (there is no end to them); linked files are read once.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.errors import UsageError
from detlint.files import exists
from detlint.linter.source.notebooks import NOTEBOOK
from detlint.settings import compile_patterns

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from detlint.config import Config, ConfigResolver

_SEARCHED_SUFFIXES = (".py", NOTEBOOK)
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
        for real, name in _expand(argument, resolver):
            # Of several names for one file its own goes first, then the first in alphabetical order.
            if real not in found or (name != real, name) < (found[real] != real, found[real]):
                found[real] = name
    here = Path.cwd()
    return [FoundFile(Path(name), display_path(name, here)) for name in sorted(found.values())]


def _expand(argument: str | Path, resolver: ConfigResolver) -> Iterator[tuple[str, str]]:
    """Yield the real path and the path of every file that an argument means."""
    path = Path(argument)
    try:
        # `link/..` is not where the text says it is.
        path = path.resolve() if ".." in path.parts else path.absolute()
        mode = path.stat().st_mode
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{argument}: {reason}") from None
    if stat.S_ISDIR(mode):
        yield from _search(path, resolver)
    elif stat.S_ISREG(mode) and is_wanted(path, resolver):
        yield path.resolve().as_posix(), path.as_posix()


def display_path(path: str | Path, cwd: Path) -> str:
    """Return how reports name a file: with slashes, relative to the current folder if below it, always printable."""
    name, below = Path(path).as_posix(), cwd.as_posix().rstrip("/") + "/"
    return name.removeprefix(below).encode("utf-8", "backslashreplace").decode("utf-8")


def is_wanted(path: Path, resolver: ConfigResolver) -> bool:
    """Is a file named on the command line linted? Those that are not Python are passed over: hooks name any file."""
    if not _is_python(path):
        return False
    config = resolver.for_file(path)
    return not (config.force_exclude and _is_excluded(path, config))


def not_python(arguments: Iterable[str | Path]) -> list[str]:
    """Return the arguments that are passed over because they are neither folders nor Python."""
    return [
        f"{each}"
        for each in arguments
        if not Path(each).is_dir() and not (Path(each).is_file() and _is_python(Path(each)))
    ]


def _is_excluded(path: Path, config: Config) -> bool:
    """Do the `exclude` patterns leave out a named file or folder, or a folder that it lies in?"""
    relative = path.relative_to(config.root).as_posix() if path.is_relative_to(config.root) else path.name
    return compile_patterns(config.exclude).match_file(f"{relative}/" if path.is_dir() else relative)


def _is_python(path: Path) -> bool:
    if "." in path.name:
        return path.name.endswith(_NAMED_SUFFIXES)
    try:
        with path.open("rb") as stream:
            return _SHEBANG.match(stream.readline(200)) is not None
    except OSError:
        return False


class _Ignores:
    """Patterns in the syntax of .gitignore, for paths below `base`, which ends in a slash.

    A search asks about one entry after the other and does not enter what is ignored, so patterns are matched with
    the entry alone, as git does. Those of pathspec match what lies below a folder too: they are cut back here.
    """

    def __init__(self, base: str, spec: GitIgnoreSpec) -> None:
        self.base = base
        self._patterns = [
            (pattern.include, re.compile(re.sub(r"\(\?P<\w+>/\)", r"/\\Z", pattern.regex.pattern)))
            for pattern in spec.patterns
            if pattern.regex is not None
        ]
        # Most paths match no pattern: one expression for all tells that ten times as fast.
        self._any = re.compile("|".join(regex.pattern for _, regex in self._patterns) or r"(?!)")

    def verdict(self, path: str) -> bool | None:
        """Is `path` (with a final slash if a folder) ignored? None: the patterns do not say."""
        relative = path[len(self.base) :]
        if self._any.search(relative) is None:
            return None
        return next(include for include, regex in reversed(self._patterns) if regex.search(relative))


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
    if first.config.force_exclude and _is_excluded(start, first.config):
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
            elif entry.name.endswith(_SEARCHED_SUFFIXES) and _is_file(entry) and not folder.leaves_out(path):
                yield os.path.realpath(path) if entry.is_symlink() else real_top + path[len(top) :], path


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return True  # whoever reads it will say what is wrong with it


def _folder(path: str, top: str, resolver: ConfigResolver, ignores: tuple[_Ignores, ...]) -> _Folder:
    config = resolver.for_folder(Path(path))
    root = config.root.as_posix().rstrip("/") + "/"
    base = root if f"{path}/".startswith(root) else f"{top}/"
    return _Folder(path, config, _excludes(base, config.exclude), ignores)


@lru_cache(maxsize=256)
def _excludes(base: str, patterns: tuple[str, ...]) -> _Ignores:
    return _Ignores(base, compile_patterns(patterns))


def _ignores_above(top: str) -> tuple[_Ignores, ...]:
    """Return the ignore files of the repository above `top`, less those that ignore it: it was asked for."""
    above = [top, *(parent.as_posix().rstrip("/") for parent in Path(top).parents)] if top else [top]
    root = next((index for index, folder in enumerate(above) if exists(Path(folder, ".git"))), None)
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
    lines = tuple(_as_git_reads(line) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `re` warns of patterns such as [[a]
        try:
            spec = compile_patterns(lines)
        except (ValueError, re.error):
            spec = compile_patterns(tuple(line for line in lines if _is_pattern(line)))
    yield _Ignores(f"{folder}/", spec)


def _as_git_reads(line: str) -> str:
    """Spell out `a/**` and `a/**/`: for git they are about what lies below `a`, for pathspec about `a` too."""
    bare = line.rstrip()
    return f"{bare}/*" if bare.endswith("/**") else f"{bare}*/" if bare.endswith("/**/") else line


def _is_pattern(line: str) -> bool:
    try:
        compile_patterns((line,))
    except (ValueError, re.error):
        return False
    return True
