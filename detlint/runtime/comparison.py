"""Runs a model with and without a change, and says where, why and by how much the results differ."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from detlint.errors import refusal
from detlint.runtime.divergence import (
    Parting,
    cause_of,
    drawn_outside,
    first_fork,
    first_parting,
    written_unseen,
)
from detlint.runtime.isolate import Capture, CaptureEach
from detlint.runtime.lab import promoted
from detlint.runtime.measure import differences, same_bits, worst
from detlint.runtime.report import Cause, Difference, Divergence, Explanation, ProbeResult, Verdict
from detlint.runtime.repro import Repro
from detlint.runtime.switches import Blame, blame
from detlint.runtime.windows import first_departure, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from detlint.runtime.events import OpEvent
    from detlint.runtime.isolate import Reruns
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case, Pass
    from detlint.runtime.probes.registry import Change, Comparison

_GRADIENTS: Final = 8
"""Gradients that are measured where more differ."""
_OTHER_PROGRAM: Final = (Cause.STATE, Cause.RANDOMNESS, Cause.UNINITIALIZED)
"""Causes that make each run, the float64 one too, a computation of other values: nothing of it is rounding."""
_SUSPECTS: Final = 16
"""Operators that are run alone where whole runs agree."""
_UNSEEN: Final = (
    "every operator that was traced wrote the same bits: the difference comes from what the tracer cannot see, "
    "such as the clock, another thread or another library"
)
_CAPTURES: Final = 4
"""Passes that look for the first divergence before what was caught is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One changed run against the base: what differs, by how much, and how bad that is."""

    change: Change
    parting: Parting | None
    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    verdict: Verdict


class Comparer:
    """Compares changed runs with the plain one."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._runner = lab.runner

    def compare(self, name: str, probe: Comparison) -> ProbeResult:
        """Make every change of a probe and report the worst."""
        case = replace(self._lab.case, canonical=probe.canonical)
        sides, refused = self._sides(case, probe)
        if not sides:
            return ProbeResult(name, Verdict.SKIPPED, reason="; ".join(refused) or "there is nothing to change")
        side = max(sides, key=_badness)
        evidence = [f"compared: {', '.join(side.change.label for side in sides)}", *refused]
        result = ProbeResult(name, side.verdict, runs=1 + len(sides), evidence=tuple(evidence))
        if side.verdict is Verdict.BITWISE and not (probe.same_program and side.parting and side.parting.spreads):
            return self._suspected(case, result) if probe.same_program else result
        why = self._repeat(case, side) if probe.same_program else self._perturb(case, side, probe)
        differing = sum(bool(side.names) for side in sides)
        evidence += [
            f"{differing} of {len(sides)} runs give another output",
            *(why.divergence.told if why.divergence else ()),
        ]
        if side.verdict is Verdict.BITWISE:
            if why.divergence is None or not why.divergence.confirmed:
                return replace(result, evidence=tuple(evidence))  # scratch memory that is read but does not count
            evidence.append("what differs inside did not reach the output of these runs")
            result = replace(result, verdict=Verdict.ROUNDING)
        forks = probe.same_program and side.parting is not None and side.parting.forks
        if (why.kind in _OTHER_PROGRAM or forks) and side.verdict is Verdict.ROUNDING:
            result = replace(result, verdict=Verdict.BEYOND_ROUNDING)
        result = replace(result, change=side.change.label, outputs=side.differences, evidence=tuple(evidence))
        return result.explained(why)

    def _sides(self, case: Case, probe: Comparison) -> tuple[list[_Side], list[str]]:
        """Make every change; say which ones the model refuses, where it may."""
        sides, refused = [], []
        for change in probe.changes(case, self._lab.options.runs):
            try:
                sides.append(self._side(case, change))
            except Exception as error:  # models may refuse a change in any way
                if not probe.may_refuse:
                    raise
                refused.append(f"{change.label}: not tried, {refusal(error)}")
        return sides, refused

    def _side(self, case: Case, change: Change) -> _Side:
        base = self._lab.base(canonical=case.canonical)
        with change.made(case) as changed:
            run = self._runner.run(changed)
        names = tuple(
            name
            for name in dict.fromkeys((*base.digests, *run.digests))
            if base.digests.get(name) != run.digests.get(name) or (name in base.digests) != (name in run.digests)
        )
        measured, verdict = self._lab.compare(*self._tensors(case, base, run, change, names), step=change.step)
        if names and verdict is Verdict.BITWISE:  # gradients are measured in further runs, which may agree by luck
            verdict = Verdict.ROUNDING
        return _Side(change, first_parting(base.trace, run.trace), names, measured, verdict)

    def _tensors(
        self, case: Case, base: Pass, run: Pass, change: Change, names: Sequence[str]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the tensors of both sides that differ. Gradients are not kept, so that needs another run."""
        gradients = [name for name in names if name not in base.output.tensors and name not in run.output.tensors]
        if gradients:
            kept = gradients[:_GRADIENTS]
            base = self._runner.run(case, keep_gradients=kept)
            with change.made(case) as changed:
                run = self._runner.run(changed, keep_gradients=kept)
        one, two = (
            {name: tensor for name, tensor in {**side.output.tensors, **side.gradients}.items() if name in names}
            for side in (base, run)
        )
        return one, two

    def _suspected(self, case: Case, result: ProbeResult) -> ProbeResult:
        """Runs can agree by luck: each operator that can differ is run alone, many times, on its own inputs."""
        suspects = {event.index: event for event in self._lab.suspects(self._lab.base().trace)[:_SUSPECTS]}
        if not suspects:
            return result
        each = CaptureEach(suspects)
        trace = self._runner.run(case, watcher=each).trace
        for index, reruns in each.reruns.items():
            event = suspects[index]
            divergence = _divergence(Parting(trace.events[index], trace.events[index]), reruns)
            if divergence.confirmed and trace.events[index].op == event.op:
                cause = f"{event.op} gives other bits for the same input, though the runs agreed"
                return replace(
                    result,
                    verdict=Verdict.ROUNDING,
                    kind=Cause.RUN_TO_RUN,
                    cause=cause,
                    divergence=divergence,
                    repro=Repro(cause, each.varying[index].call()),
                    evidence=(*result.evidence, *divergence.told),
                )
        alone = ", ".join(dict.fromkeys(event.op for event in suspects.values()))
        return replace(result, evidence=(*result.evidence, f"the same bits each time, alone too: {alone}"))

    def _repeat(self, case: Case, side: _Side) -> Explanation:
        """Say why two runs of the same program differ; the operator is run alone on the inputs of one run."""
        parting = side.parting
        base = self._lab.base(canonical=case.canonical)
        if parting is None:
            return _without_parting(base, side.names, Cause.UNKNOWN)
        if parting.first is None or parting.forks:
            divergence = Divergence(parting.first, parting.second, sequence_forks=True)
            return Explanation(*cause_of(parting, base.trace.threads), divergence)
        for _ in range(_CAPTURES):
            capture = Capture(parting.first.index)
            again = self._runner.run(case, watcher=capture)
            earlier = first_parting(base.trace, again.trace)
            if earlier is None or earlier.first is None or earlier.first.index >= parting.first.index:
                kind, cause = cause_of(parting, base.trace.threads)
                divergence = _divergence(parting, capture.reruns())
                if kind is Cause.RUN_TO_RUN and not divergence.confirmed and _read_others(capture, parting.first):
                    kind, cause = written_unseen(parting.first)
                repro = Repro(cause, capture.call()) if divergence.confirmed else None
                return Explanation(kind, cause, divergence, repro=repro)
            parting = earlier  # another operator varies too, and comes first
        return Explanation(*cause_of(parting, base.trace.threads), Divergence(parting.first, parting.second))

    def _perturb(self, case: Case, side: _Side, probe: Comparison) -> Explanation:
        """Say why the change matters; the operator is run alone on the inputs of both sides."""
        random, change = probe.kind is Cause.RANDOMNESS, side.change
        parting = side.parting if random else self._culprit(case, side)  # what is drawn is never rounding
        if parting is None:
            return _without_parting(self._lab.base(canonical=case.canonical), side.names, probe.kind)
        first, second = parting.first, parting.second
        if first is None or second is None or parting.forks:
            drawn = self._lab.base(canonical=case.canonical).trace.unseen_draws if random else ()
            decide = f"numbers drawn from {' and '.join(drawn)} decide which operators run"
            cause = f"{decide if drawn else 'other operators run'} ({change.label}): {parting}"
            return Explanation(probe.kind, cause, Divergence(first, second, sequence_forks=True))
        if random and parting.inputs_differ:
            cause = drawn_outside(first, self._lab.base(canonical=case.canonical).trace)
            return Explanation(probe.kind, cause, Divergence(first, second))
        captures = Capture(first.index), Capture(second.index)
        self._runner.run(case, watcher=captures[0])
        with change.made(case) as changed:
            self._runner.run(changed, watcher=captures[1])

        def differs() -> bool:
            one = captures[0].rerun()
            with change.made(case):
                two = captures[1].rerun()
            return not all(map(same_bits, one, two))

        divergence = Divergence(
            first,
            second,
            confirmed=differs(),
            reruns=2,
            at_operator=_between(captures[0].outputs, captures[1].outputs),
        )
        cause = probe.explain(first, change.label)
        if first.rng is not None:
            return Explanation(Cause.RANDOMNESS, cause, divergence)
        tested = divergence.confirmed and probe.kind is Cause.PERTURBATION
        found = blame(differs, first, besides=change.flags) if tested else Blame()
        repro = Repro(cause, captures[0].call(), captures[1].call(change.flags)) if divergence.confirmed else None
        return Explanation(probe.kind, found.after(cause), divergence, found.remedy, found.evidence, repro)

    def _culprit(self, case: Case, side: _Side) -> Parting | None:
        """Return where the runs part: where the output is beyond rounding, what rounding explains is passed over."""
        parting, step = side.parting, side.change.step
        # Of less precision the casts are what other operators run at first.
        if parting is None or (parting.forks and not step) or side.verdict is not Verdict.BEYOND_ROUNDING:
            return parting
        one = watch(self._runner, case)
        with side.change.made(case) as changed:
            two = watch(self._runner, changed)
        departure = first_departure(one, two, beyond_rounding=True, step=step)
        if departure is None or departure.first is None or departure.given:
            return parting
        if departure.unfollowed is not None:  # what it reads has another shape: it came another way
            return first_fork(one.trace.events, two.trace.events) or parting
        return Parting(departure.first, departure.second, forks=departure.forks)


def _read_others(capture: Capture, event: OpEvent) -> bool:
    """Did an operator read other values than its event tells, which are those that operators wrote?"""
    pairs = zip(event.inputs, capture.inputs(), strict=False)
    return any(None not in (meta.digest, digest) and meta.digest != digest for meta, digest in pairs)


def _without_parting(base: Pass, names: Sequence[str], otherwise: Cause) -> Explanation:
    """Say why outputs differ although no event wrote different bytes."""
    for name in names:
        if name in base.unfilled:
            event = base.trace.events[base.unfilled[name]]
            cause = f"{name} is memory from {event.op} that nothing was written to"
            return Explanation(Cause.UNINITIALIZED, cause, Divergence(event, event))
    return Explanation(otherwise, _UNSEEN, None)


def _badness(side: _Side) -> tuple[int, int]:
    """Order sides: the worst verdict, then the earliest parting."""
    event = None if side.parting is None else side.parting.first
    return side.verdict.rank, -sys.maxsize if event is None else -event.index


def _divergence(parting: Parting, reruns: Reruns) -> Divergence:
    """Put down what came out when the operator ran alone."""
    first, *others = reruns.results
    return Divergence(
        parting.first,
        parting.second,
        confirmed=bool(others),
        reruns=reruns.times,
        distinct=len(reruns.results),
        at_operator=worst(item for other in others if (item := _between(first, other)) is not None),
    )


def _between(one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> Difference | None:
    """Return the greatest difference between what an operator gave on two occasions, in the wider of their types."""
    names = [f"result {place}" for place in range(max(len(one), len(two)))]
    left, right = dict(zip(names, one, strict=False)), dict(zip(names, two, strict=False))
    return worst(differences(promoted(left, right), promoted(right, left)))
