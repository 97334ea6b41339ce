"""Compares two runs of different shapes, operator by operator, in the part of their tensors that they share.

A batch and one of its samples, an image and one of its tiles: each side says where in a tensor the shared part
lies, its *window*. Windows are digested while the side runs, so no tensor is kept, only a few values of each. The
operator at which they first depart is then captured on both sides and run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from detlint.runtime.digests import Digester, is_plain
from detlint.runtime.divergence import agree, aligned, first_fork
from detlint.runtime.isolate import Capture
from detlint.runtime.measure import difference, same_bits, worst
from detlint.runtime.memory import describe
from detlint.runtime.primitives import Primitive, contrast, primitives_of
from detlint.runtime.reference import bound_of, growth
from detlint.runtime.report import Difference, Divergence
from detlint.runtime.repro import Repro
from detlint.runtime.switches import Blame, blame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from detlint.runtime.events import OpEvent, TensorMeta, Trace
    from detlint.runtime.passes import Case, Pass, Runner

Window: TypeAlias = "tuple[slice | torch.Tensor, ...]"
"""What a tensor is indexed with: a slice for each of its first dimensions, the others whole; or tensors of indices."""

Locate: TypeAlias = Callable[[int, int, tuple[int, ...]], Sequence[Window]]
"""(index of an event, place among its outputs, shape of that output) → the window of the shared part.

Several where it may lie in any of them; none where it cannot be told.
"""

_Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_HANDED_ON: Final = frozenset({"aten._to_copy", "aten.t", "aten.detach", "aten.alias"})
"""Operators that give the values they are given, but for rounding."""
_VALUES: Final = 128
"""How many values of a window are kept, about."""


def everywhere(index: int, place: int, shape: tuple[int, ...]) -> Sequence[Window]:
    """Locate the shared part in a run that computes nothing else."""
    return ((),)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a window held: its description with the digest, and some of its values, evenly spread, if floating."""

    meta: TensorMeta
    values: torch.Tensor | None

    def agrees(self, other: Part, within: float | None) -> bool:
        """Are all bits the same or, if `within` is given, all values that were kept, relative to the greatest?"""
        if agree(self.meta, other.meta, canonical=True):
            return True
        if within is None or self.values is None or other.values is None:
            return False
        one, two = self.values.to(torch.float64), other.values.to(torch.float64)
        scale = max(float(one.abs().nan_to_num().max()), float(two.abs().nan_to_num().max()))
        return torch.allclose(one, two, rtol=0.0, atol=within * scale, equal_nan=True)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of two runs that share a part: what is run, where its part lies, and what it held.

    `parts` holds the windows of each output, by index of the event and place among its outputs.
    """

    case: Case
    locate: Locate
    ran: Pass
    parts: Mapping[tuple[int, int], tuple[Part, ...]]

    @property
    def trace(self) -> Trace:
        """What ran."""
        return self.ran.trace


def watch(runner: Runner, case: Case, locate: Locate = everywhere) -> Side:
    """Run a case and digest the windows of what every operator gives. What the model raises passes through."""
    watcher = _Watcher(locate)
    ran = runner.run(replace(case, canonical=True), watcher=watcher)
    return Side(case, locate, ran, watcher.parts())


class _Watcher:
    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._digester = Digester(canonical=True)
        self._parts: dict[tuple[int, int], tuple[Part, ...]] = {}

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Inputs were outputs before."""

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        """Look at each output in its windows."""
        for place, tensor in enumerate(outputs):
            # A nested tensor has no shape that a window could be cut from.
            windows = () if tensor.is_nested else self._locate(index, place, tuple(tensor.shape))
            self._parts[index, place] = tuple(map(self._part, _cut(tensor, windows)))

    def parts(self) -> dict[tuple[int, int], tuple[Part, ...]]:
        """Wait for the devices; return what was seen."""
        tickets = self._digester.fetch()

        def settled(part: Part) -> Part:
            digest = part.meta.digest
            return part if digest not in tickets else Part(replace(part.meta, digest=tickets[digest]), part.values)

        return {key: tuple(map(settled, parts)) for key, parts in self._parts.items()}

    def _part(self, tensor: torch.Tensor) -> Part:
        if not is_plain(tensor):
            return Part(describe(tensor, self._digester.digest(tensor)), None)
        whole = tensor.detach().contiguous()
        step = max(1, whole.numel() // _VALUES)
        values = whole.flatten()[::step].clone() if whole.is_floating_point() and whole.numel() else None
        return Part(describe(tensor, self._digester.digest(whole)), values)


def _cut(tensor: torch.Tensor, windows: Sequence[Window]) -> list[torch.Tensor]:
    return [tensor[window] if window else tensor for window in windows]


@dataclass(frozen=True, slots=True)
class Departure:
    """The first operators whose windows differ although those of what they read agree.

    `forks`: here the sides run other operators, which bring the difference in; an event is None where a sequence
    ends, and `then` is the first operator after it that both run and that differs. `unfollowed` is an earlier
    operator whose output has no window (it sorts or picks by value, say), so that the difference may have come in
    between there and here. `given`: the operator reads no tensor; its values, such as positions, follow from the
    shape.
    """

    first: OpEvent | None
    second: OpEvent | None
    forks: bool = False
    then: OpEvent | None = None
    unfollowed: OpEvent | None = None
    given: bool = False


def first_departure(one: Side, two: Side, *, beyond_rounding: bool = False, step: float = 0.0) -> Departure | None:
    """Find where the shared part first differs; None where every aligned operator gave the same.

    With `beyond_rounding`, differences that the sums so far can explain are passed over, as far as the values
    that were kept tell: so what really mixes parts is not hidden behind a kernel that rounds otherwise. `step` is the
    relative precision of the arithmetic where one side computes more coarsely than its types; casts are passed over.
    """
    pairs = [
        (one.trace.events[left], two.trace.events[right]) for left, right in aligned(one.trace.events, two.trace.events)
    ]
    fork = first_fork(one.trace.events, two.trace.events, pairs)
    grown = accumulate(growth(first) for first, _ in pairs)
    same: dict[int | None, bool | None] = {
        first.index: _same_part(one, first, two, second, sums if beyond_rounding else None, step)
        for (first, second), sums in zip(pairs, grown, strict=True)
    }
    partner: dict[int | None, int] = {second.index: first.index for first, second in pairs}
    differing = [pair for pair in pairs if same[pair[0].index] is False]
    read = {meta.origin for first, _ in differing for meta in first.inputs}
    for first, second in differing:
        origins = _origins(one, first, same, through_casts=step > 0)
        others = _origins(two, second, partner, through_casts=step > 0)
        known = {same.get(origin) for origin in (*origins, *map(partner.get, others))}
        writes = any(meta.origin == first.index for meta in first.outputs)  # a view names who wrote what it shows
        scratch = writes and first.index not in read and first is not differing[-1][0]
        if scratch or False in known or not (first.inputs or first.rng):
            continue
        if None not in known:
            return Departure(first, second)
        strange = [one.trace.events[origin] for origin in sorted(origins) if origin not in same]
        strangers = [two.trace.events[origin] for origin in sorted(others) if origin not in partner]
        if strange or strangers:
            return Departure((*strange, first)[0], (*strangers, second)[0], forks=True, then=first)
        unfollowed = [one.trace.events[origin] for origin in sorted(origins) if same.get(origin) is None]
        return Departure(first, second, unfollowed=unfollowed[0] if unfollowed else None)
    if fork is not None:
        return Departure(fork.first, fork.second, forks=True)
    return Departure(*differing[0], given=True) if differing else None


def _origins(side: Side, event: OpEvent, known: Mapping[int | None, object], *, through_casts: bool) -> list[int]:
    """Return which events wrote what an event reads; of a cast that one side alone makes, what wrote before it."""
    found: list[int] = []
    waiting = [meta.origin for meta in event.inputs]
    while waiting:
        origin = waiting.pop(0)
        if origin is None:
            continue
        writer = side.trace.events[origin]
        if through_casts and origin not in known and writer.name in _HANDED_ON:
            waiting += [meta.origin for meta in writer.inputs]
        else:
            found.append(origin)
    return found


def _same_part(one: Side, first: OpEvent, two: Side, second: OpEvent, grown: float | None, step: float) -> bool | None:
    """Did two operators give the same in the shared part? None where one of them has no window for it."""
    if len(first.outputs) != len(second.outputs):
        return None
    found: list[bool | None] = []
    for place, outputs in enumerate(zip(first.outputs, second.outputs, strict=True)):
        if any(meta.digest is None for meta in outputs):
            continue  # memory that was not written yet
        lefts, rights = one.parts[first.index, place], two.parts[second.index, place]
        pairs = [pair for pair in product(lefts, rights) if pair[0].meta.shape == pair[1].meta.shape]
        within = None if grown is None else bound_of(grown, max(step, *map(_step, outputs)))
        found.append(any(left.agrees(right, within) for left, right in pairs) if pairs else None)
    return False if False in found else None if None in found else True


def _step(meta: TensorMeta) -> float:
    """Return the precision of a floating type, 0 for others."""
    return torch.finfo(getattr(torch, meta.dtype)).eps if meta.is_floating else 0.0


class Alone:
    """The operators of a departure, captured on both sides, to be run alone."""

    def __init__(self, runner: Runner, one: Side, two: Side, departure: Departure) -> None:
        """Run both sides again and capture; neither operator may be None."""
        self._departure = departure
        self._sides = (one, two)
        self._captures = []
        for side, event in zip(self._sides, (departure.first, departure.second), strict=True):
            assert event is not None
            capture = Capture(event.index)
            runner.run(replace(side.case, canonical=True), watcher=capture)
            self._captures.append(capture)

    def rerun(self) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Run both operators again on what they were given; return all of their outputs."""
        one, two = (capture.rerun() for capture in self._captures)
        return one, two

    def differs(self) -> bool:
        """Run both again: do they still differ in the shared part?"""
        return any(not _share_bits(pairs) for pairs in self._pairs(*self.rerun()))

    def tested(self, divergence: Divergence, sides: tuple[str, str]) -> tuple[Blame, list[str]]:
        """Ask what makes the operators agree if they depart alone, and what oneDNN ran; `sides` are their names."""
        assert self._departure.first is not None
        found = blame(self.differs, self._departure.first) if divergence.confirmed else Blame()
        ran = contrast(*self.primitives(), sides)
        return found, [*([ran] if ran else []), *found.evidence]

    def primitives(self) -> tuple[tuple[Primitive, ...], tuple[Primitive, ...]]:
        """Run both again and return what oneDNN ran for each."""
        one, two = (primitives_of(capture.rerun) for capture in self._captures)
        return one, two

    def divergence(self) -> Divergence:
        """Say whether the operators alone depart too, and by how much they did in their runs."""
        one, two = (capture.outputs for capture in self._captures)
        departure = self._departure
        return Divergence(
            departure.first,
            departure.second,
            confirmed=self.differs(),
            reruns=2,
            at_operator=self._difference(one, two),
        )

    def repro(self, cause: str) -> Repro | None:
        """Return both calls and the windows of what they give first; None where no pair of slices tells them.

        Nor where what they read cannot be followed: made-up inputs of the two sides would have nothing to do with
        each other.
        """
        if self._departure.unfollowed is not None:
            return None
        one, two = (capture.outputs for capture in self._captures)
        for left, right in product(*(self._located(side, 0, outputs[0]) for side, outputs in enumerate((one, two)))):
            windows = [tuple(part for part in window if isinstance(part, slice)) for window in (left, right)]
            whole = len(windows[0]) == len(left) and len(windows[1]) == len(right)
            if whole and one[0][left].shape == two[0][right].shape:
                calls = (capture.call(window=part) for capture, part in zip(self._captures, windows, strict=True))
                return Repro(cause, *calls)
        return None

    def _difference(self, one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> Difference | None:
        found = (nearest(f"result {place}", pairs) for place, pairs in enumerate(self._pairs(one, two)))
        return worst(item for item in found if item is not None)

    def _pairs(self, one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> Iterator[list[_Pair]]:
        """Yield for each output the windows that may hold the same on both sides."""
        for place in range(len(one)):
            lefts, rights = (self._windows(side, place, outputs[place]) for side, outputs in enumerate((one, two)))
            yield [pair for pair in product(lefts, rights) if pair[0].shape == pair[1].shape]

    def _windows(self, side: int, place: int, output: torch.Tensor) -> list[torch.Tensor]:
        return _cut(output, self._located(side, place, output))

    def _located(self, side: int, place: int, output: torch.Tensor) -> Sequence[Window]:
        event = (self._departure.first, self._departure.second)[side]
        assert event is not None
        if output.is_nested:
            return ()
        return self._sides[side].locate(event.index, place, tuple(output.shape))


def nearest(name: str, pairs: Sequence[_Pair]) -> Difference | None:
    """Measure the pair that differs least; None if the bits of one agree, or if there is none."""
    if _share_bits(pairs):
        return None
    found = (difference(name, *pair) for pair in pairs)
    return min((item for item in found if item), key=lambda item: (item.max_abs, item.differing))


def _share_bits(pairs: Sequence[_Pair]) -> bool:
    """Do the bits of a pair agree, or is there none?"""
    return not pairs or any(same_bits(*pair) for pair in pairs)
