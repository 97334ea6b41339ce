"""Runs a model with and without a change, and says where, why and by how much the results differ."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from detlint.runtime.divergence import Parting, cause_of, first_parting
from detlint.runtime.isolate import Capture, CaptureEach
from detlint.runtime.measure import differences, same_bits, worst
from detlint.runtime.reference import judge
from detlint.runtime.report import Cause, Difference, Divergence, ProbeResult, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from detlint.runtime.events import OpEvent, Trace
    from detlint.runtime.isolate import Reruns
    from detlint.runtime.passes import Case, Pass, Runner
    from detlint.runtime.probes.registry import Change, Comparison
    from detlint.runtime.reference import Reference

_GRADIENTS: Final = 8
"""Gradients that are measured where more differ."""
_OTHER_PROGRAM: Final = (Cause.STATE, Cause.RANDOMNESS, Cause.UNINITIALIZED)
"""Causes that make each run, the float64 one too, a computation of other values: nothing of it is rounding."""
_SUSPECTS: Final = 16
"""Operators that are run alone where whole runs agree."""
_UNSEEN: Final = (
    "every operator that was traced wrote the same bits: the difference comes from what the tracer cannot see, "
    "such as another thread or another library"
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
    """Compares changed runs with one base run, which is made once for each kind of digest."""

    def __init__(
        self,
        runner: Runner,
        case: Case,
        runs: int,
        reference: Callable[[], Reference],
        suspects: Callable[[Trace], Sequence[OpEvent]],
    ) -> None:
        self._runner = runner
        self._case = case
        self._runs = runs
        self._reference = reference
        self._suspects = suspects
        self._bases: dict[bool, Pass] = {}

    def base(self, *, canonical: bool = False) -> Pass:
        """Return the run without a change."""
        if canonical not in self._bases:
            self._bases[canonical] = self._runner.run(replace(self._case, canonical=canonical))
        return self._bases[canonical]

    def compare(self, name: str, probe: Comparison) -> ProbeResult:
        """Make every change of a probe and report the worst."""
        case = replace(self._case, canonical=probe.canonical)
        sides = [self._side(case, change) for change in probe.changes(case, self._runs)]
        side = max(sides, key=_badness)
        evidence = [f"compared: {', '.join(side.change.label for side in sides)}"]
        result = ProbeResult(name, side.verdict, runs=1 + len(sides), evidence=tuple(evidence))
        if side.verdict is Verdict.BITWISE and not (probe.same_program and side.parting and side.parting.spreads):
            return self._suspected(case, result) if probe.same_program else result
        if probe.same_program:
            kind, cause, divergence = self._repeat(case, side)
        else:
            kind, cause, divergence = self._perturb(case, side, probe)
        differing = sum(bool(side.names) for side in sides)
        evidence.append(f"{differing} of {len(sides)} runs give another output")
        evidence += _told(divergence)
        if side.verdict is Verdict.BITWISE:
            if divergence is None or not divergence.confirmed:
                return result  # scratch memory that is read but does not count
            evidence.append("what differs inside did not reach the output of these runs")
            result = replace(result, verdict=Verdict.ROUNDING)
        if kind in _OTHER_PROGRAM and side.verdict is Verdict.ROUNDING:
            result = replace(result, verdict=Verdict.BEYOND_ROUNDING)
        return replace(
            result,
            cause=cause,
            kind=kind,
            change=side.change.label,
            divergence=divergence,
            outputs=side.differences,
            evidence=tuple(evidence),
        )

    def _side(self, case: Case, change: Change) -> _Side:
        base = self.base(canonical=case.canonical)
        with change.apply(case) as changed:
            run = self._runner.run(changed)
        names = tuple(
            name
            for name in dict.fromkeys((*base.digests, *run.digests))
            if base.digests.get(name) != run.digests.get(name) or (name in base.digests) != (name in run.digests)
        )
        one, two = self._tensors(case, base, run, change, names)
        return _Side(
            change,
            first_parting(base.trace, run.trace),
            names,
            differences(one, two),
            self._verdict(one, two, base),
        )

    def _tensors(
        self, case: Case, base: Pass, run: Pass, change: Change, names: Sequence[str]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the tensors of both sides that differ. Gradients are not kept, so that needs another run."""
        gradients = [name for name in names if name not in base.output.tensors and name not in run.output.tensors]
        if gradients:
            kept = gradients[:_GRADIENTS]
            base = self._runner.run(case, keep_gradients=kept)
            with change.apply(case) as changed:
                run = self._runner.run(changed, keep_gradients=kept)
        one, two = (
            {name: tensor for name, tensor in {**side.output.tensors, **side.gradients}.items() if name in names}
            for side in (base, run)
        )
        return one, two

    def _verdict(self, one: dict[str, torch.Tensor], two: dict[str, torch.Tensor], base: Pass) -> Verdict:
        if not one and not two:
            return Verdict.BITWISE
        if one.keys() != two.keys():
            return Verdict.BEYOND_ROUNDING
        exact = self._reference().tensors
        verdicts = (judge(one[name], two[name], exact.get(name), base.trace.events) for name in one)
        return max(verdicts, key=lambda verdict: verdict.rank)

    def _suspected(self, case: Case, result: ProbeResult) -> ProbeResult:
        """Runs can agree by luck: each operator that can differ is run alone, many times, on its own inputs."""
        suspects = {event.index: event for event in self._suspects(self.base().trace)[:_SUSPECTS]}
        if not suspects:
            return result
        each = CaptureEach(suspects)
        trace = self._runner.run(case, watcher=each).trace
        for index, reruns in each.reruns.items():
            event = suspects[index]
            divergence = _divergence(Parting(trace.events[index], trace.events[index]), reruns)
            if divergence.confirmed and trace.events[index].op == event.op:
                return replace(
                    result,
                    verdict=Verdict.ROUNDING,
                    kind=Cause.RUN_TO_RUN,
                    cause=f"{event.op} gives other bits for the same input, though the runs agreed",
                    divergence=divergence,
                    evidence=(*result.evidence, *_told(divergence)),
                )
        alone = ", ".join(dict.fromkeys(event.op for event in suspects.values()))
        return replace(result, evidence=(*result.evidence, f"the same bits each time, alone too: {alone}"))

    def _repeat(self, case: Case, side: _Side) -> tuple[Cause, str, Divergence | None]:
        """Say why two runs of the same program differ; the operator is run alone on the inputs of one run."""
        parting = side.parting
        base = self.base(canonical=case.canonical)
        if parting is None:
            return _without_parting(base, side.names)
        if parting.first is None or parting.forks:
            return *cause_of(parting), Divergence(parting.first, parting.second, sequence_forks=True)
        for _ in range(_CAPTURES):
            capture = Capture(parting.first.index)
            again = self._runner.run(case, watcher=capture)
            earlier = first_parting(base.trace, again.trace)
            if earlier is None or earlier.first is None or earlier.first.index >= parting.first.index:
                return *cause_of(parting), _divergence(parting, capture.reruns())
            parting = earlier  # another operator varies too, and comes first
        return *cause_of(parting), Divergence(parting.first, parting.second)

    def _perturb(self, case: Case, side: _Side, probe: Comparison) -> tuple[Cause, str, Divergence | None]:
        """Say why the change matters; the operator is run alone on the inputs of both sides."""
        parting = side.parting
        if parting is None:
            return Cause.PERTURBATION, _UNSEEN, None
        if parting.first is None or parting.second is None or parting.forks:
            cause = f"with {side.change.label}, other operators run: {parting}"
            return Cause.PERTURBATION, cause, Divergence(parting.first, parting.second, sequence_forks=True)
        captures = Capture(parting.first.index), Capture(parting.second.index)
        self._runner.run(case, watcher=captures[0])
        one = captures[0].rerun()
        with side.change.apply(case) as changed:
            self._runner.run(changed, watcher=captures[1])
            two = captures[1].rerun()
        divergence = Divergence(
            parting.first,
            parting.second,
            confirmed=not all(map(same_bits, one, two)),
            reruns=2,
            at_operator=_between(captures[0].outputs, captures[1].outputs),
        )
        kind = Cause.RANDOMNESS if parting.first.rng is not None else Cause.PERTURBATION
        return kind, probe.explain(parting.first, side.change.label), divergence


def _without_parting(base: Pass, names: Sequence[str]) -> tuple[Cause, str, Divergence | None]:
    """Say why outputs differ although no event wrote different bytes."""
    for name in names:
        if name in base.unfilled:
            event = base.trace.events[base.unfilled[name]]
            return (
                Cause.UNINITIALIZED,
                f"{name} is memory from {event.op} that nothing was written to",
                Divergence(event, event),
            )
    return Cause.UNKNOWN, _UNSEEN, None


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
    """Return the greatest difference between what an operator gave on two occasions."""
    names = [f"result {place}" for place in range(max(len(one), len(two)))]
    return worst(differences(dict(zip(names, one, strict=False)), dict(zip(names, two, strict=False))))


def _told(divergence: Divergence | None) -> list[str]:
    if divergence is None or divergence.confirmed is None or divergence.event is None:
        return []
    op = divergence.event.op
    if divergence.distinct:
        return [f"{op} alone, on the inputs of one run: {divergence.distinct} results in {divergence.reruns} runs"]
    word = "other" if divergence.confirmed else "the same"
    return [f"{op} alone, on the inputs of both sides: {word} bits"]
