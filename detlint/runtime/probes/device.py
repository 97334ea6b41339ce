"""Does another device compute the same?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from detlint.errors import AuditError
from detlint.runtime.probes.registry import probe
from detlint.runtime.records.comparing import compare_records
from detlint.runtime.records.recording import record
from detlint.runtime.report import Cause, Divergence, ProbeResult, Verdict
from detlint.runtime.targets import modules_of, moved_to

if TYPE_CHECKING:
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.records.alignment import Departure
    from detlint.runtime.records.result import RecordComparison


@probe("device")
class Device:
    """Runs a copy of the model on the CPU, or on the accelerator if it lies on the CPU."""

    def skip_reason(self, case: Case) -> str | None:
        """There must be another device. Two machines are compared with `detlint record` and `detlint compare`."""
        if other_device(case) is None:
            return "there is no other device here; compare machines with `detlint record` and `detlint compare`"
        return None

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compare with the other device."""
        other = other_device(lab.case)
        assert other is not None
        return compared_with(lab, other)


def other_device(case: Case) -> str | None:
    """Which device can the case be compared with?"""
    if case.devices() != ("cpu",):
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else None


def compared_with(lab: Lab, device: str) -> ProbeResult:
    """Run a copy of the model on a device. Outputs are judged in float64, operators by what rounding may do to them."""
    case = lab.case
    try:
        model, sample = moved_to(case.model, case.sample, device)
    except AuditError as obstacle:
        return ProbeResult("", Verdict.SKIPPED, reason=str(obstacle))
    moved = replace(case, model=model, modules=modules_of(model), sample=sample)
    ours, theirs = (
        {name: tensor.cpu() for name, tensor in lab.runner.run_untraced(side).items()} for side in (case, moved)
    )
    measured, verdict = lab.compare(ours, theirs)
    result = ProbeResult("", verdict, runs=2, change=device, outputs=measured)
    if verdict is Verdict.BITWISE:
        return result
    one, two = (
        record(side.model, side.sample, backward=side.backward, loss=side.loss, seed=side.seed)
        for side in (case, moved)
    )
    comparison = compare_records(one, two, ("/".join(case.devices()), device), "rounding")
    return explained(result, comparison, device)


def explained(result: ProbeResult, comparison: RecordComparison, device: str) -> ProbeResult:
    """Name the first operator that departs, by more than rounding if the outputs do."""
    beyond = result.verdict is Verdict.BEYOND_ROUNDING
    wanted = Verdict.BEYOND_ROUNDING if beyond else Verdict.ROUNDING
    first = next((item for item in comparison.departures if item.verdict.rank >= wanted.rank), None)
    evidence = tuple(explanation.says for explanation in comparison.explanations)
    if first is None:
        return replace(result, cause="every operator alone agrees up to rounding, and that adds up", evidence=evidence)
    return replace(
        result,
        kind=Cause.PERTURBATION,
        cause=f"{_name(first)} gives other bits on {device}",
        divergence=Divergence(first.event, first.other, sequence_forks=first.gap is None),
        evidence=evidence,
    )


def _name(departure: Departure) -> str:
    event = departure.event or departure.other
    return "an operator" if event is None else event.op
