"""Which operators of two records belong together, and do they depart from the same inputs?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from detlint.runtime.divergence import aligned
from detlint.runtime.records.gaps import Gap, allowed_after, gap, precision
from detlint.runtime.reference import terms_of
from detlint.runtime.report import Verdict, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.events import OpEvent, TensorMeta
    from detlint.runtime.records.record import Record
    from detlint.runtime.records.summary import Summary


@dataclass(frozen=True, slots=True)
class Stretch:
    """Operators of one record (`first`) in whose place the other runs those of `second`; one side may be empty."""

    first: tuple[OpEvent, ...]
    second: tuple[OpEvent, ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """Operators that belong together and gave different results.

    `same_inputs`: by all that is known their inputs agree. `gap` is None where only one of the records has the
    operator. Where other operators do the same work, `event` and `other` are the last of each and `stretch` holds all.
    """

    event: OpEvent | None
    other: OpEvent | None
    gap: Gap | None
    same_inputs: bool
    stretch: Stretch | None = None

    @property
    def verdict(self) -> Verdict:
        return Verdict.BEYOND_ROUNDING if self.gap is None else self.gap.verdict

    def row(self) -> dict[str, object]:
        """What tells it apart, as JSON-ready values; places count from 0."""
        event = self.event or self.other
        assert event is not None
        return {
            "op": event.op,
            "module": event.module,
            "phase": event.phase.value,
            "places": [None if side is None else side.index for side in (self.event, self.other)],
            "same_inputs": self.same_inputs,
            "verdict": self.verdict.value,
            "relative": None if self.gap is None else plain(self.gap.relative),
            "allowed": None if self.gap is None else self.gap.allowed,
        }


@dataclass(frozen=True, slots=True)
class Alignment:
    """What the operators tell: how many belong together, which stretches do not, and those that depart, in order."""

    pairs: int
    stretches: tuple[Stretch, ...]
    departures: tuple[Departure, ...]


def align(one: Record, two: Record, *, same_start: bool) -> Alignment:
    """Compare the operators of two records; `same_start`: weights and inputs agree."""
    return _Aligner(one, two, same_start).run()


class _Aligner:
    def __init__(self, one: Record, two: Record, same_start: bool) -> None:
        self._one, self._two = one, two
        self._events = one.trace.events, two.trace.events
        self._same_start = same_start
        self._terms = [list(accumulate(terms_by_event(record), initial=0)) for record in (one, two)]
        self._steps = [
            list(accumulate((_precision_of(event) for event in events), max, initial=0.0)) for events in self._events
        ]
        self._partner: dict[int, int] = {}
        self._departed: set[int] = set()
        self._auxiliary: set[int] = set()
        self._departures: list[Departure] = []
        self._unmatched: list[Stretch] = []

    def run(self) -> Alignment:
        stretches: list[Stretch] = []
        left = right = pairs = 0
        for place in (*aligned(*self._events), (len(self._events[0]), len(self._events[1]))):
            if place != (left, right):
                stretch = Stretch(self._events[0][left : place[0]], self._events[1][right : place[1]])
                stretches.append(stretch)
                self._compare_stretch(stretch)
            if place[0] < len(self._events[0]):
                self._compare(place[0], place[1], None)
                pairs += 1
            left, right = place[0] + 1, place[1] + 1
        if not self._departures and self._unmatched and self._results_differ():
            self._blame(self._unmatched[0])
        return Alignment(pairs, tuple(stretches), tuple(self._taken_up()))

    def _taken_up(self) -> Iterator[Departure]:
        """Leave out departures in workspaces, seeds and indices alone that neither an operator nor the caller gets."""
        read = {meta.origin for item in self._departures if item.event is not None for meta in item.event.inputs}
        returned = {summary.digest for summary in self._one.outputs.values()}
        for item in self._departures:
            index = None if item.event is None else item.event.index
            if (
                index not in self._auxiliary
                or index in read
                or any(summary.digest in returned for summary in _kept(self._one, index))
            ):
                yield item

    def _compare_stretch(self, stretch: Stretch) -> None:
        """Compare what two stretches of operators come to: the last results, where they are of one shape."""
        ends = self._end(self._one, stretch.first), self._end(self._two, stretch.second)
        if ends[0] is None and ends[1] is None:
            return
        if ends[0] is not None and ends[1] is not None:
            summaries = _kept(self._one, ends[0]), _kept(self._two, ends[1])
            if summaries[0][0].shape == summaries[1][0].shape:
                self._compare(ends[0], ends[1], stretch)
                return
        self._unmatched.append(stretch)

    @staticmethod
    def _end(record: Record, events: Sequence[OpEvent]) -> int | None:
        return next((event.index for event in reversed(events) if _kept(record, event.index)), None)

    def _compare(self, left: int, right: int, stretch: Stretch | None) -> None:
        self._partner[left] = right
        first, second = self._events[0][left], self._events[1][right]
        same_inputs = self._same_inputs(first, second, stretch)
        found = self._gap(left, right, same_inputs, stretch)
        if found is None:
            return
        if left not in self._auxiliary:
            self._departed.add(left)
        if not self._departures and not same_inputs:
            self._blame_unmatched(first, second)
        self._departures.append(Departure(first, second, found, same_inputs, stretch))

    def _gap(self, left: int, right: int, same_inputs: bool, stretch: Stretch | None) -> Gap | None:
        """Return the worst gap of the results; those with the same inputs may differ by their own rounding only."""
        allowed = max(self._allowed(side, place, same_inputs, stretch) for side, place in enumerate((left, right)))
        if stretch is None:
            pairs = list(zip(self._one.results[left], self._two.results[right], strict=False))
        else:
            pairs = [(_kept(self._one, left)[0], _kept(self._two, right)[0])]
        found: dict[bool, list[Gap]] = {False: [], True: []}
        for place, (a, b) in enumerate(pairs):
            if a is not None and b is not None and (item := gap(f"result {place}", a, b, allowed)) is not None:
                found[place > 0 and not precision(a.dtype)].append(item)
        if found[True] and not found[False]:
            self._auxiliary.add(left)
        return max(found[False] or found[True], key=lambda item: (item.verdict.rank, item.relative), default=None)

    def _allowed(self, side: int, place: int, same_inputs: bool, stretch: Stretch | None) -> float:
        """Bound what rounding can do to a result: since the start, or since the inputs that agree."""
        events = self._events[side]
        if not same_inputs:
            return allowed_after(self._terms[side][place + 1], self._steps[side][place + 1])
        own: Sequence[OpEvent] = (events[place],)
        if stretch is not None:
            own = (stretch.first, stretch.second)[side]
        return allowed_after(sum(map(terms_of, own)), max(map(_precision_of, own)))

    def _same_inputs(self, first: OpEvent, second: OpEvent, stretch: Stretch | None) -> bool:
        if stretch is not None:
            return self._undisturbed(stretch)
        return len(first.inputs) == len(second.inputs) and all(map(self._same_input, first.inputs, second.inputs))

    def _same_input(self, one: TensorMeta, two: TensorMeta) -> bool:
        if one.digest is not None and (one.digest, one.shape, one.dtype) == (two.digest, two.shape, two.dtype):
            return True
        if one.shape != two.shape or one.dtype != two.dtype:
            return False
        if one.origin is None or two.origin is None:
            return one.origin is two.origin and self._same_start and not is_another_from_outside(one, two)
        return self._partner.get(one.origin) == two.origin and one.origin not in self._departed

    def _undisturbed(self, stretch: Stretch) -> bool:
        """Does all that the stretches read from before them agree?"""
        sound = {left for left in self._partner if left not in self._departed}
        for events, known in ((stretch.first, sound), (stretch.second, {self._partner[left] for left in sound})):
            start = events[0].index if events else 0
            for meta in (meta for event in events for meta in event.inputs):
                if meta.origin is None and not self._same_start:
                    return False
                if meta.origin is not None and meta.origin < start and meta.origin not in known:
                    return False
        return True

    def _blame_unmatched(self, first: OpEvent, second: OpEvent) -> None:
        """Name the operators that only one record has, if a departing operator reads what they wrote."""
        origins = {meta.origin for meta in first.inputs}, {meta.origin for meta in second.inputs}
        for stretch in self._unmatched:
            sides = stretch.first, stretch.second
            if any(event.index in origins[side] for side in (0, 1) for event in sides[side]):
                self._blame(stretch)
                return

    def _blame(self, stretch: Stretch) -> None:
        event, other = (next(iter(events), None) for events in (stretch.first, stretch.second))
        self._departures.append(Departure(event, other, None, self._undisturbed(stretch), stretch))

    def _results_differ(self) -> bool:
        """Do the outputs or gradients differ, though all operators that both ran gave the same?"""
        pairs = ((self._one.outputs, self._two.outputs), (self._one.gradients, self._two.gradients))
        return any(
            one.keys() != two.keys() or any(one[name].digest != two[name].digest for name in one) for one, two in pairs
        )


def is_another_from_outside(one: TensorMeta, two: TensorMeta) -> bool:
    """Are both made by no operator, and their bytes known to differ? Devices have digests of their own kind."""
    outside = one.origin is None and two.origin is None
    alike = (one.shape, one.dtype, one.device, one.strides) == (two.shape, two.dtype, two.device, two.strides)
    return outside and alike and None not in (one.digest, two.digest) and one.digest != two.digest


def terms_by_event(record: Record) -> list[int]:
    """How many terms does each event add up? Views add nothing."""
    return [
        terms_of(event) if any(results) else 0
        for event, results in zip(record.trace.events, record.results, strict=True)
    ]


def _kept(record: Record, index: int) -> list[Summary]:
    """The summaries of what an event wrote."""
    return [summary for summary in record.results[index] if summary is not None]


def _precision_of(event: OpEvent) -> float:
    return precision(*(meta.dtype for meta in (*event.inputs, *event.outputs)))
