"""What linter and auditor report: plain, frozen, picklable records that hold no nodes and no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How bad a finding is; `rank` orders them."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return ("info", "warning", "error").index(self.value)


class Applicability(str, Enum):
    """How far a fix may be trusted."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A region of a file. Lines and columns count from 1, in characters; the end is exclusive.

    In a notebook `cell` is the number of the cell (all cells count, from 1) and lines count within that cell.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None

    def __str__(self) -> str:
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to a finding, and what it has to do with it."""

    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `location` by `text`."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair: what it does, how far it may be trusted, and the edits that make it."""

    description: str
    applicability: Applicability
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One hazard (it can differ) or divergence (it did), at one place, under one rule.

    `remedy` is one line that says what to do; `passes` and `devices` say where it applies (empty: everywhere).
    `op` and `module` are set by the auditor: aten operator and module path. `suppressed` holds the reason
    of the comment that silenced the finding (possibly empty), or None where nothing did.
    """

    code: str
    name: str
    severity: Severity
    message: str
    location: Location
    remedy: str = ""
    passes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    url: str = ""
    op: str | None = None
    module: str | None = None
    suppressed: str | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, str]:
        """Path, cell, line, column, code, message: the order of every report."""
        where = self.location
        return (where.path, where.cell or 0, where.line, where.column, self.code, self.message)
