"""Does the result depend on which library computes it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause
from detlint.runtime.switches import in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case
    from detlint.runtime.switches import Switch


@probe("backends")
class Backends:
    """oneDNN, cuDNN and the fused kernels of attention, switched off one by one; `threads` asks for threads.

    MKL cannot be switched in a running process: `MKL_CBWR` decides when it starts.
    """

    canonical = True
    same_program = False
    may_refuse = True
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        """There must be something to switch off."""
        return None if _in_force(case) else "no library that could be switched off is in force"

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Switch off one after the other."""
        for switch in _in_force(case):
            yield Change(f"without {switch.name}", flags=switch.off)

    def explain(self, event: OpEvent, change: str) -> str:
        """Name the operator that has a kernel of its own in that library."""
        return f"{event.op} gives other bits {change}"


def _in_force(case: Case) -> list[Switch]:
    return [switch for switch in in_force(case.devices()) if "threads" not in switch.off.given()]
