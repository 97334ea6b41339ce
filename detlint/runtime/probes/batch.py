"""Does a sample's result depend on how many others are computed with it, on its place among them, or on them?"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final

from detlint.errors import one_line, refusal
from detlint.runtime.batching import batchings
from detlint.runtime.company import Bench
from detlint.runtime.company_causes import explain
from detlint.runtime.measure import worst
from detlint.runtime.probes.registry import probe
from detlint.runtime.report import ProbeResult, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.company import Outcome
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case


_MIXING: Final = "along dimension 0 results depend on each other; if it counts samples, pass batch_dim=0"


@probe("batch")
class Batch:
    """Computes samples alone, in batches of other sizes, at other places and with other neighbours."""

    def skip_reason(self, case: Case) -> str | None:
        """There must be something that could be a batch."""
        return None if any(tensor.dim() for tensor in case.sample.tensors().values()) else "no tensor among the inputs"

    def conduct(self, lab: Lab) -> ProbeResult:
        """Find the dimension that counts samples, try everything, and explain the worst."""
        case = replace(lab.case, backward=False, loss=None, grad=lab.case.grad or lab.case.backward)
        bench, notes = _find(lab, case)
        if bench is None:
            tried = "; ".join(notes[:2]) or "none has a dimension that counts any"
            return ProbeResult("batch", Verdict.SKIPPED, reason=f"the inputs could not be cut into samples: {tried}")
        evidence = [str(bench.batching), *notes, *_left_out(lab, bench)]
        outcomes = []
        for trial in chain(bench.sizes(), bench.others()):
            try:
                outcomes.append(bench.compare(trial))
            except Exception as error:  # models may refuse other sizes and values in any way
                evidence.append(f"{trial.label}: not tried, {refusal(error)}")
        if not outcomes:
            return ProbeResult("batch", Verdict.SKIPPED, reason="; ".join(evidence))
        enough = _enough(outcomes)
        evidence += _told(outcomes, enough)
        # Who knows which dimension counts samples has named it.
        unasked = "; ".join((str(bench.batching), *notes)) if notes and lab.options.batch_dim is None else ""
        result = ProbeResult("batch", Verdict.BITWISE, runs=bench.runs, evidence=tuple(evidence), unasked=unasked)
        worst_one = max(outcomes, key=_badness)
        if worst_one.verdict is Verdict.BITWISE:
            return result
        why = explain(lab, bench, worst_one.trial, _most_affected(bench, worst_one), worst_one.verdict)
        if enough and not why.remedy:
            why = replace(why, remedy=f"give the model at least {enough} samples at a time")
        result = replace(result, verdict=worst_one.verdict, change=worst_one.trial.label, outputs=worst_one.differences)
        return result.explained(why)


def _find(lab: Lab, case: Case) -> tuple[Bench | None, list[str]]:
    """Try which dimension of which inputs counts samples, and how few of them the model takes.

    It is the first that makes outputs shrink with it and gives a sample alone what it gives it in the batch, within
    rounding. Where none does, samples depend on each other, and it is the first that makes outputs shrink. So they do
    where results move with the samples all the same: then the inputs are cut as they should be.
    Dimension 1 is tried if nothing can be cut along 0, or if the model holds a layer that takes time first.
    """
    mixing: tuple[Bench, list[str]] | None = None
    refused: list[str] = []
    wanted = lab.options.batch_dim
    for dim in (0, 1) if wanted is None else (wanted,):
        if mixing is not None and not _time_first(case):
            break
        notes = refused[:1] if mixing is None else [_MIXING]
        for bench in _benches(lab, case, dim, refused):
            try:
                verdict = bench.compare(bench.plain()).verdict
                moves = verdict is Verdict.BEYOND_ROUNDING and bench.compare(bench.moved()).verdict
            except Exception as error:  # outputs may be of a kind that cannot be cut
                refused.append(f"{bench.batching}, but the outputs cannot be compared: {one_line(error)}")
                continue
            if verdict.rank <= Verdict.ROUNDING.rank:
                return bench, notes
            mixing = mixing or (bench, notes)
            if moves and moves.rank <= Verdict.ROUNDING.rank:
                break
    return mixing or (None, refused)


def _benches(lab: Lab, case: Case, dim: int, refused: list[str]) -> Iterator[Bench]:
    """Yield the ways to cut the inputs along a dimension of which the model takes the parts; note the others."""
    for batching in batchings(case.sample, dim):
        for count in (1, 2) if batching.size > 2 else (1,):
            bench = Bench(lab, case, batching, count)
            try:
                shrinking = bench.counted
            except Exception as error:  # models may refuse a batch of another size in any way
                refused.append(f"{batching}, but with {count} {refusal(error)}")
                continue
            if shrinking:
                yield bench
            else:
                refused.append(f"{batching}, but no output shrinks with them")
            break


def _time_first(case: Case) -> bool:
    """Does the model hold a layer whose inputs are (time, batch, features)?"""
    return any(getattr(module, "batch_first", True) is False for root in case.modules for module in root.modules())


def _left_out(lab: Lab, bench: Bench) -> list[str]:
    """Say what is not compared."""
    others = ", ".join(name for name in bench.whole if name not in bench.counted)
    notes = [f"not compared, as it does not count samples: {others}"] if others else []
    if lab.case.backward:
        notes.append("gradients add up over the batch and were not compared")
    return notes


def _badness(outcome: Outcome) -> tuple[object, ...]:
    """Order outcomes: by verdict; then what tells most of it, the larger batch, the greater difference."""
    trial, beyond = outcome.trial, outcome.verdict is Verdict.BEYOND_ROUNDING
    most = worst(outcome.differences)
    gap = 0.0 if most is None else most.max_abs
    return outcome.verdict.rank, trial.mixes is beyond, trial.alone, trial.size, math.isfinite(gap), gap


def _enough(outcomes: Sequence[Outcome]) -> int | None:
    """From which size on do all batches give the same bits? None if only the whole one does, or if there is no need."""
    sized = [outcome for outcome in outcomes if outcome.trial.alone]
    rest = [outcome for outcome in outcomes if not outcome.trial.alone]
    alike = list(takewhile(lambda outcome: outcome.as_whole, reversed(sized)))
    if len(alike) < 2 or not sized[-1].differences or not all(outcome.as_whole for outcome in rest):
        return None
    return alike[-1].trial.size


def _told(outcomes: Sequence[Outcome], enough: int | None) -> list[str]:
    """Say what came out of each trial."""
    same = "; ".join(outcome.trial.label for outcome in outcomes if outcome.verdict is Verdict.BITWISE)
    lines = [f"the same bits: {same}"] if same else []
    for outcome in outcomes:
        most = worst(outcome.differences)
        if most is not None:
            lines.append(
                f"{outcome.trial.label}: {outcome.verdict.value}, "
                f"{most.differing} of {most.numel} values of {most.name} differ by up to {most.max_abs:.3g}"
            )
    return [*lines, f"a sample gets the same bits in all batches of {enough} and more"] if enough else lines


def _most_affected(bench: Bench, outcome: Outcome) -> int:
    """Return the sample with the greatest difference."""
    most, starts = worst(outcome.differences), list(outcome.trial.places)
    if most is None or not most.place:
        return starts[0]
    dim = bench.counted[most.name]
    return starts[most.place[dim] // bench.alone(starts[0])[most.name].shape[dim]]
