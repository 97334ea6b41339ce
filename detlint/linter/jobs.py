"""What the linter is asked about a file, and what it answers: all that the cache needs to know of linting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from detlint.config import Config
from detlint.findings import Finding
from detlint.linter.source.mentions import Fact

Progress = Callable[[int, int], None]
"""Called with the files done and their total."""


@dataclass(frozen=True, slots=True)
class Job:
    """A file to lint, the name that reports give it, and the settings in force for it."""

    path: Path
    display: str
    config: Config


@dataclass(frozen=True, slots=True)
class Options:
    """How to lint: work out fixes for the findings that have one, print the traceback of an internal error."""

    with_fixes: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True)
class FileResult:
    """What linting one file gave.

    `problem` is an internal error in one line; `facts` are the other files that were read or looked for, the
    searches through all files of a project, and what decided where projects and packages begin.
    """

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    problem: str | None = None
    facts: tuple[Fact, ...] = ()
