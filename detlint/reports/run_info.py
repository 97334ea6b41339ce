"""What a renderer knows about the run besides its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from detlint.findings import Location
from detlint.rulebook import Rule

SourceLines = Callable[[str, "int | None"], Sequence[str]]

FileLine = Callable[[str, int, int], int]


def no_source(path: str, cell: int | None) -> Sequence[str]:
    """Stand in for `RunInfo.source_lines` where there is no source to show."""
    return ()


def first_line(path: str, cell: int, line: int) -> int:
    """Stand in for `RunInfo.file_line` where there is no notebook to look into."""
    return 1


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run: `rules` by code, the number of `files` read, the time it took.

    `source_lines` gives the lines of a file, or of a cell of a notebook, and nothing where they cannot be
    read; `file_line` gives the line of a notebook's JSON that holds a line of a cell. `root` is the folder that
    relative paths are relative to. A baseline hides `listed` findings more. `color` and `width` are for people.
    """

    rules: Mapping[str, Rule]
    files: int
    seconds: float
    root: Path
    source_lines: SourceLines = no_source
    file_line: FileLine = first_line
    listed: int = 0
    color: bool = False
    width: int = 100

    def lines_in_file(self, where: Location) -> tuple[int, int]:
        """Return the first and the last line of a place as viewers count them: in a notebook, those of its JSON."""
        if where.cell is None:
            return where.line, where.end_line
        first, last = (self.file_line(where.path, where.cell, line) for line in (where.line, where.end_line))
        return first, last

    def line(self, path: str, line: int, cell: int | None = None) -> str | None:
        """Return one line of source without its end, or None where it cannot be had."""
        lines = self.source_lines(path, cell)
        return lines[line - 1] if 0 < line <= len(lines) else None
