"""Compares two trainings, step by step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from detlint.errors import first_few
from detlint.runtime.records.gaps import allowed_after, differing, named_gaps, precision, worst_of
from detlint.runtime.records.result import RecordComparison
from detlint.runtime.records.suspects import (
    Explanation,
    apart,
    call_of_tensors,
    place_suspects,
    settings_suspects,
)
from detlint.runtime.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from detlint.influences import Call
    from detlint.runtime.records.gaps import NamedGap
    from detlint.runtime.records.record import Record, Step
    from detlint.runtime.records.summary import Statistics, Summary

_SUMS: tuple[float, float] = (1e-9, 1e-12)
"""How far, relatively and absolutely, means and norms of the same values in another order may be apart."""


def compare_trainings(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    """Compare step by step; what rounding may do grows with each step after the first that departs."""
    found: list[NamedGap] = []
    for first, second in zip(one.steps, two.steps, strict=False):
        found += _gaps(first, second, 1 + first.number - (found[0].step or 0 if found else first.number))
    calls: list[Call] = []
    suspects: list[Explanation] = []
    if found:
        # Where rounding comes first, what goes beyond it later has a cause of its own.
        beyond = [item for item in found if item.verdict is Verdict.BEYOND_ROUNDING][:1]
        for began in dict.fromkeys(item.step or 0 for item in (*beyond, found[0])):
            here = [item for item in found if item.step == began]
            suspects += _suspects(one, two, here, began, fresh=here[0] is found[0])
        began = found[0].step or 0
        calls = [call_of_tensors(side.steps[began].tensors().values()) for side in (one, two)]
        suspects = list(dict.fromkeys([*suspects, *place_suspects(*calls)]))
    rounding = bool(found) and found[0].verdict is Verdict.ROUNDING
    reaching, others = settings_suspects(one.environment, two.environment, calls, rounding=rounding)
    lengths = len(one.steps), len(two.steps)
    return RecordComparison(
        names=names,
        models=(one.model, two.model),
        allow=allow,
        verdict=worst_of(found),
        results=tuple(found),
        explanations=(*suspects, *reaching),
        other_settings=others,
        missing=() if lengths[0] == lengths[1] else (f"only the first {min(lengths)} steps are in both records",),
        blind_spots=(),
        steps=lengths,
    )


def _gaps(one: Step, two: Step, since: int) -> Iterator[NamedGap]:
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


def _suspects(one: Record, two: Record, found: Sequence[NamedGap], began: int, *, fresh: bool) -> Iterator[Explanation]:
    """Yield what differs in the program where the trainings depart, in step `began`, of which `found` is all."""
    first, second = one.steps[began], two.steps[began]
    weights = differing(one.weights, two.weights)
    yield from apart("weights", weights, " before the first step")
    inputs = differing(first.inputs, second.inputs)
    yield from apart("inputs", inputs, f" in step {began}", _order(one.steps, two.steps, began) if inputs else "")
    departing = {item.name for item in found if item.verdict is Verdict.BEYOND_ROUNDING}
    if departing and first.inputs and not weights and not inputs:
        yield from _by_order(first, departing, began, fresh=fresh)
    yield from _generators_apart(one.steps, two.steps, began)


def _by_order(step: Step, departing: set[str], began: int, *, fresh: bool) -> Iterator[Explanation]:
    """Say where in a step things go apart, and so what may do it: tensors are compared in the order of their making.

    Where no step before it departed (`fresh`); else those before may be to blame, if not for most weights at once.
    """
    trained = {name.removeprefix("gradient of ") for name in step.gradients}
    buffers = [name for name in step.parameters if name in departing and name not in trained]
    if not departing.isdisjoint(step.computed):
        says = (
            f"in step {began} weights and inputs agree, and the loss does not: the model, its mode or the loss differ"
        )
        yield from (Explanation("loss", "", "", says),) if fresh else ()
    elif fresh and not departing.isdisjoint(step.gradients):
        says = f"in step {began} the loss agrees, and gradients do not: how it is scaled, or they are reset or clipped"
        yield Explanation("gradients", "", "", says)
    elif fresh and buffers:
        says = f"in step {began} only buffers differ ({first_few(buffers)}): settings or modes of their layers differ"
        yield Explanation("mode", "", "", says)
    elif step.gradients and (fresh or len(departing) * 2 > len(trained)):
        says = f"in step {began} all agrees up to the gradients: the optimizer, its settings or its state differ"
        yield Explanation("optimizer", "", "", says)


def _order(one: Sequence[Step], two: Sequence[Step], began: int) -> str:
    """Say in which order the inputs came instead, as far as that can be told."""
    batches = [[_batch(step) for step in steps] for steps in (one, two)]
    places = [place for place, batch in enumerate(batches[1]) if batch == batches[0][began]]
    if places:
        what = "the same batches come in another order, " if sorted(batches[0]) == sorted(batches[1]) else ""
        return f": {what}this one in step {min(places, key=lambda place: abs(place - began))} of the second record"
    if _same_values(one[began].inputs, two[began].inputs):
        return ": as far as can be told, the same values in another order"
    return ""


def _batch(step: Step) -> tuple[tuple[str, str], ...]:
    """Return what tells the inputs of a step from others."""
    return tuple((name, repr(item.digest)) for name, item in step.inputs.items())


def _same_values(one: Mapping[str, Summary], two: Mapping[str, Summary]) -> bool:
    """Have the tensors the same extremes, means and norms?"""
    return one.keys() == two.keys() and all(_alike(one[name].statistics, two[name].statistics) for name in one)


def _alike(one: Statistics | None, two: Statistics | None) -> bool:
    if one is None or two is None:
        return False
    exact = [(item.minimum, item.maximum, item.nan, item.infinite) for item in (one, two)]
    sums = ((one.mean, two.mean), (one.norm, two.norm))
    return exact[0] == exact[1] and all(math.isclose(*pair, rel_tol=_SUMS[0], abs_tol=_SUMS[1]) for pair in sums)


def _generators_apart(one: Sequence[Step], two: Sequence[Step], began: int) -> Iterator[Explanation]:
    """Yield the generators that are drawn from and stand elsewhere in the step that departs first."""
    for name, state in one[began].generators.items():
        moving = any(len({step.generators.get(name) for step in steps}) > 1 for steps in (one, two))
        if moving and state != two[began].generators.get(name, state):
            yield Explanation("generators", "", "", f"the {name} generator stands elsewhere in step {began}")
