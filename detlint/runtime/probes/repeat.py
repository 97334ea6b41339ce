"""Does the same run give the same bits again?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case


@probe("repeat")
class Repeat:
    """Same seed, same input, same everything: any difference is run-to-run variation."""

    canonical = False
    same_program = True
    may_refuse = False
    kind = Cause.RUN_TO_RUN

    def skip_reason(self, case: Case) -> str | None:
        """It always makes sense."""
        return None

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Yield the runs after the first."""
        for number in range(2, runs + 1):
            yield Change(f"run {number}")

    def explain(self, event: OpEvent, change: str) -> str:
        """The engine finds the cause from the events themselves."""
        return f"{event.op} gives other bits for the same input"
