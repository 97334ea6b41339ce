"""The lines of source that reports quote, as linting read them: from files, notebooks and stdin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from detlint.linter.source.notebook_edits import lines_of_cells
from detlint.linter.source.sources import SourceFile, SourceProblem, read_source, source_from_bytes

SourceLines = Callable[[str, "int | None"], Sequence[str]]
"""Returns the lines of a file, or of a cell of a notebook."""


def file_lines(path: str, cell: int | None) -> Sequence[str]:
    """Return the lines of a file, or of a cell of a notebook; none where it cannot be read."""
    try:
        stamp = Path(path).stat().st_mtime_ns
    except OSError:
        stamp = 0
    return _lines(_read(path, stamp), cell)


def stdin_lines(data: bytes, name: str) -> SourceLines:
    """Return `file_lines` for a run in which `data` stands for the file `name`."""
    return lines_in(source_from_bytes(data, Path(name), name), name)


def lines_in(source: SourceFile | SourceProblem, name: str) -> SourceLines:
    """Return `file_lines` for a run in which `source` stands for the file `name`."""
    return lambda path, cell: _lines(source, cell) if path == name else file_lines(path, cell)


def file_line(path: str, cell: int, line: int) -> int:
    """Return the line of a notebook's JSON that holds a line of a cell; 1 where it cannot be read."""
    try:
        return _line_of_cell(_lines_of_cells(path, Path(path).stat().st_mtime_ns), cell, line)
    except OSError:
        return 1


def stdin_line(data: bytes, name: str) -> Callable[[str, int, int], int]:
    """Return `file_line` for a run in which `data` stands for the file `name`."""
    return lambda path, cell, line: (
        _line_of_cell(lines_of_cells(data), cell, line) if path == name else file_line(path, cell, line)
    )


@lru_cache(maxsize=16)
def _lines_of_cells(path: str, stamp: int) -> dict[int, list[int]]:
    return lines_of_cells(Path(path).read_bytes())


def _line_of_cell(cells: dict[int, list[int]], cell: int, line: int) -> int:
    lines = cells.get(cell, [])
    return lines[line - 1] if 0 < line <= len(lines) else 1


@lru_cache(maxsize=16)
def _read(path: str, stamp: int) -> SourceFile | SourceProblem:
    return read_source(Path(path), path)


def _lines(source: SourceFile | SourceProblem, cell: int | None) -> Sequence[str]:
    if isinstance(source, SourceProblem):
        return ()
    if cell is None:
        return source.lines
    for entry in source.cells:
        if entry.number == cell:
            return [entry.margin_of(number) + line for number, line in enumerate(entry.text.split("\n"), 1)]
    return ()
