"""Where in the user's program does an event stand, as a finding says it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.findings import Location

if TYPE_CHECKING:
    from detlint.runtime.events import OpEvent


def location_of(event: OpEvent) -> Location:
    """Return the line; where none of the user's was running, the operator stands in for the file."""
    if event.source is None:
        return Location(f"<{event.op}>", 1, 1, 1, 1)
    return Location(event.source.path, event.source.line, 1, event.source.line, 1)
