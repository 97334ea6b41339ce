"""Does the result depend on whether gradients are recorded?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case


@probe("grad")
class Grad:
    """Fused paths run under no_grad only, so evaluation can differ from the forward pass of training."""

    canonical = False
    same_program = False
    may_refuse = False
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        """With a backward pass, both sides record gradients."""
        return "a backward pass always records gradients" if case.backward else None

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Record gradients where the first run did not."""
        yield Change(
            "gradients recorded" if not case.grad else "no_grad",
            lambda case: nullcontext(replace(case, grad=not case.grad)),
        )

    def explain(self, event: OpEvent, change: str) -> str:
        """The forward pass of training is another program."""
        return f"{event.op} gives other bits when gradients are recorded: training and evaluation run other kernels"
