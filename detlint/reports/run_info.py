"""What a renderer knows about the run besides its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from detlint.rulebook import Rule

SourceLines = Callable[[str, "int | None"], Sequence[str]]


def no_source(path: str, cell: int | None) -> Sequence[str]:
    """Stand in for `RunInfo.source_lines` where there is no source to show."""
    return ()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run: `rules` by code, the number of `files` read, the time it took.

    `source_lines` gives the lines of a file, or of a cell of a notebook, and nothing where they cannot be
    read. `root` is the folder that relative paths are relative to. A baseline hides `listed` findings more.
    `color` and `width` are for people.
    """

    rules: Mapping[str, Rule]
    files: int
    seconds: float
    root: Path
    source_lines: SourceLines = no_source
    listed: int = 0
    color: bool = False
    width: int = 100

    def line(self, path: str, line: int, cell: int | None = None) -> str | None:
        """Return one line of source without its end, or None where it cannot be had."""
        lines = self.source_lines(path, cell)
        return lines[line - 1] if 0 < line <= len(lines) else None
