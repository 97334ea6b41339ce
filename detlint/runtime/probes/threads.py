"""Does the result depend on how many CPU threads share the work?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from detlint.runtime.flags import Flags
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case


@probe("threads")
class Threads:
    """Sums are split by the number of threads, so another machine adds in another order."""

    canonical = False
    same_program = False
    may_refuse = False
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        """There must be something to reduce."""
        return None if torch.get_num_threads() > 1 else "only one thread is available"

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """One thread instead of all."""
        yield Change(f"1 thread instead of {torch.get_num_threads()}", flags=Flags(threads=1))

    def explain(self, event: OpEvent, change: str) -> str:
        """Name the operator whose sum is split."""
        return f"{event.op} gives other bits when one thread does all the work"
