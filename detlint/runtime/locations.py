"""Where in the user's program does an event stand, as a finding says it?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.findings import Location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detlint.findings import Finding
    from detlint.runtime.events import OpEvent


def location_of(event: OpEvent) -> Location:
    """Return the line; where none of the user's was running, the operator stands in for the file."""
    if event.source is None:
        return Location(f"<{event.op}>", 1, 1, 1, 1)
    return Location(event.source.path, event.source.line, 1, event.source.line, 1)


def in_files(findings: Iterable[Finding], otherwise: Location) -> tuple[Finding, ...]:
    """Return findings as tools that show them in source want them: each in a file, by its path from this folder.

    `otherwise` is the place of those whose operators no line of the user's called.
    """
    return tuple(replace(finding, location=_in_file(finding.location, otherwise)) for finding in findings)


def _in_file(location: Location, otherwise: Location) -> Location:
    if location.path.startswith("<") and not location.path.startswith("<ipython"):
        location = otherwise
    path, here = Path(location.path), Path.cwd()
    return replace(location, path=str(path.relative_to(here) if path.is_relative_to(here) else path))
