"""Compares two records: do the results agree, where do they first depart, and what could explain it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.errors import RecordError
from detlint.influences import Call
from detlint.runtime.events import Phase
from detlint.runtime.records.alignment import align, terms_by_event
from detlint.runtime.records.gaps import allowed_after, differing, named_gaps, precision, worst_of
from detlint.runtime.records.result import RecordComparison
from detlint.runtime.records.suspects import (
    apart,
    calls_of,
    outside_suspects,
    program_suspects,
    settings_suspects,
    varies_by_itself,
)
from detlint.runtime.records.training import compare_trainings
from detlint.runtime.records.wrappers import without_wrappers
from detlint.runtime.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.records.gaps import NamedGap
    from detlint.runtime.records.record import Record


def compare_records(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    """Compare two records of the same kind; `names` are what to call them.

    Raises:
        RecordError: one is of a pass, the other of a training.
    """
    if bool(one.steps) != bool(two.steps):
        kinds = ["the steps of a training" if record.steps else "one pass" for record in (one, two)]
        raise RecordError(f"{names[0]} holds {kinds[0]}, {names[1]} {kinds[1]}: only like can be compared with like")
    one, two = without_wrappers(one), without_wrappers(two)
    return (compare_trainings if one.steps else _compare_passes)(one, two, names, allow)


def _compare_passes(one: Record, two: Record, names: tuple[str, str], allow: str) -> RecordComparison:
    inputs, weights = differing(one.inputs, two.inputs), differing(one.weights, two.weights)
    alignment = align(one, two, same_start=not inputs and not weights)
    results = tuple(_results(one, two))
    first = next(iter(alignment.departures), None)
    suspects = [*apart("inputs", inputs), *apart("weights", weights)]
    calls = list[Call]()
    if first is not None:
        calls = calls_of(first)
        suspects += [] if suspects else outside_suspects(first)
        suspects += [*program_suspects(one, two, first), *varies_by_itself(one, first)]
    rounding = first is not None and first.verdict is Verdict.ROUNDING
    reaching, others = settings_suspects(one.environment, two.environment, calls, rounding=rounding)
    return RecordComparison(
        names=names,
        models=(one.model, two.model),
        allow=allow,
        verdict=worst_of(results),
        results=results,
        explanations=(*suspects, *reaching),
        other_settings=tuple(each for each in others if each.subject not in {named.subject for named in suspects}),
        missing=() if one.backward == two.backward else ("only one record has a backward pass",),
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
    if one.backward == two.backward:
        yield from named_gaps(one.gradients, two.gradients, whole, pooled=True)


def _lost(record: Record, phases: Sequence[Phase]) -> float:
    """Bound what rounding does to results of the operators of these phases."""
    events = [event for event in record.trace.events if event.phase in phases]
    terms = terms_by_event(record)
    dtypes = {meta.dtype for event in events for meta in event.outputs}
    return allowed_after(sum(terms[event.index] for event in events), precision(*dtypes))


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
