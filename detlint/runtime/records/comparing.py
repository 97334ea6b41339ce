"""Compares two records: do the results agree, where do they first depart, and what could explain it?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from detlint.errors import RecordError
from detlint.influences import Call
from detlint.runtime.events import Phase
from detlint.runtime.records.alignment import align, terms_by_event
from detlint.runtime.records.gaps import NamedGap, allowed_after, differing, named_gaps, precision
from detlint.runtime.records.result import RecordComparison
from detlint.runtime.records.suspects import (
    Explanation,
    call_of_tensors,
    calls_of,
    place_suspects,
    program_suspects,
    settings_suspects,
    varies_by_itself,
)
from detlint.runtime.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.records.record import Record, Step


def compare_records(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    """Compare two records of the same kind; `names` are what to call them.

    Raises:
        RecordError: one is of a pass, the other of a training.
    """
    if bool(one.steps) != bool(two.steps):
        kinds = ["the steps of a training" if record.steps else "one pass" for record in (one, two)]
        raise RecordError(f"{names[0]} holds {kinds[0]}, {names[1]} {kinds[1]}: only like can be compared with like")
    return (_compare_steps if one.steps else _compare_passes)(one, two, names, allow)


def _compare_passes(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    inputs, weights = differing(one.inputs, two.inputs), differing(one.weights, two.weights)
    alignment = align(one, two, same_start=not inputs and not weights)
    results = tuple(_results(one, two))
    first = next(iter(alignment.departures), None)
    suspects = [*_told("inputs", inputs), *_told("weights", weights)]
    calls = list[Call]()
    if first is not None:
        calls = calls_of(first)
        suspects += [*program_suspects(one, two, first), *varies_by_itself(one, first)]
    rounding = first is not None and first.verdict is Verdict.ROUNDING
    reaching, others = settings_suspects(one.environment, two.environment, calls, rounding=rounding)
    return RecordComparison(
        names=names,
        models=(one.model, two.model),
        allow=allow,
        verdict=_worst(results),
        results=results,
        explanations=(*suspects, *reaching),
        other_settings=others,
        blind_spots=tuple(_blind_spots(one, two)),
        departures=alignment.departures,
        operators=(len(one.trace), len(two.trace)),
        pairs=alignment.pairs,
        stretches=alignment.stretches,
    )


def _results(one: Record, two: Record) -> Iterator[NamedGap]:
    """Yield the outputs and gradients that differ, judged by what all operators together may lose."""
    forward = max(_lost(side, (Phase.FORWARD,)) for side in (one, two))
    whole = max(_lost(side, tuple(Phase)) for side in (one, two))
    yield from named_gaps(one.outputs, two.outputs, forward)
    yield from named_gaps(one.gradients, two.gradients, whole, pooled=True)


def _lost(record: Record, phases: Sequence[Phase]) -> float:
    """Bound what rounding does to results of the operators of these phases."""
    events = [event for event in record.trace.events if event.phase in phases]
    terms = terms_by_event(record)
    dtypes = {meta.dtype for event in events for meta in event.outputs}
    return allowed_after(sum(terms[event.index] for event in events), precision(*dtypes))


def _worst(results: Sequence[NamedGap]) -> Verdict:
    return max((item.verdict for item in results), key=lambda verdict: verdict.rank, default=Verdict.BITWISE)


def _told(subject: str, gaps: Sequence[NamedGap], when: str = "") -> Iterator[Explanation]:
    """Say that the inputs or the weights are not the same: nothing else needs explaining then."""
    if gaps:
        first = gaps[0]
        how = "in one record only" if first.gap is None else first.gap.note or f"by {first.gap.at_least:.3g} or more"
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        yield Explanation(subject, "", "", f"the {subject} differ{when}: {first.name} first ({how}){more}")


def _blind_spots(one: Record, two: Record) -> Iterator[str]:
    kept = [[summary for results in side.results for summary in results if summary] for side in (one, two)]
    if len({summary.device_digest for side in kept for summary in side}) > 1:
        yield (
            "digests taken on the CPU and on a device are of two kinds: operators were compared by their statistics "
            "and by the values kept"
        )
    for name, side, summaries in zip(("first", "second"), (one, two), kept, strict=True):
        if side.trace.threads:
            yield f"in the {name} record threads were started ({side.trace.threads}): their operators were not traced"
        left_out = sum(summary.values is None and summary.statistics is not None for summary in summaries)
        if left_out:
            yield f"the {name} record was full: of its last {left_out} results it holds digests and statistics only"
    if one.backward != two.backward:
        yield "only one record has a backward pass"


def _compare_steps(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    """Compare training step by step; what rounding may do grows with each step after the first that departs."""
    found: list[NamedGap] = []
    for first, second in zip(one.steps, two.steps, strict=False):
        found += _step_gaps(first, second, 1 + first.number - (found[0].step or 0 if found else first.number))
    calls, suspects = list[Call](), list[Explanation]()
    if found:
        began = found[0].step or 0
        sides = one.steps[began], two.steps[began]
        calls = [call_of_tensors(side.tensors().values()) for side in sides]
        suspects += _told("inputs", differing(sides[0].inputs, sides[1].inputs), f" in step {began}")
        suspects += [*_generators_apart(one.steps, two.steps, began), *place_suspects(*calls)]
    rounding = bool(found) and found[0].verdict is Verdict.ROUNDING
    reaching, others = settings_suspects(one.environment, two.environment, calls, rounding=rounding)
    lengths = len(one.steps), len(two.steps)
    return RecordComparison(
        names=names,
        models=(one.model, two.model),
        allow=allow,
        verdict=_worst(found),
        results=tuple(found),
        explanations=(*suspects, *reaching),
        other_settings=others,
        blind_spots=() if lengths[0] == lengths[1] else (f"only the first {min(lengths)} steps are in both records",),
        steps=lengths,
    )


def _step_gaps(one: Step, two: Step, since: int) -> Iterator[NamedGap]:
    """Yield the tensors of a step that differ, in the order of their computation.

    Rounding may do what the sums of one step can lose, forward and backward, `since` times.
    """
    tensors = [*one.tensors().values(), *two.tensors().values()]
    weights = [summary for summary in one.parameters.values() if len(summary.shape) > 1]
    terms = 2 * sum(math.prod(summary.shape[1:]) for summary in weights)
    allowed = since * allowed_after(terms, precision(*(summary.dtype for summary in tensors)))
    yield from differing(one.inputs, two.inputs, one.number)
    yield from named_gaps(one.computed, two.computed, allowed, step=one.number)
    yield from named_gaps(one.gradients, two.gradients, allowed, pooled=True, step=one.number)
    yield from named_gaps(one.parameters, two.parameters, allowed, step=one.number)


def _generators_apart(one: Sequence[Step], two: Sequence[Step], began: int) -> Iterator[Explanation]:
    """Yield the generators that are drawn from and stand elsewhere in the step that departs first."""
    for name, state in one[began].generators.items():
        moving = any(len({step.generators.get(name) for step in steps}) > 1 for steps in (one, two))
        if moving and state != two[began].generators.get(name, state):
            yield Explanation("generators", "", "", f"the {name} generator stands elsewhere in step {began}")
