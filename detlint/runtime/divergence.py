"""Where do two traces first part, and why? Works on records alone."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from detlint.runtime.events import OpEvent, Phase, TensorMeta, Trace, tensors_in
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Key: TypeAlias = tuple[str, str, Phase]

_ALIGNABLE = 4_000_000
"""Products of lengths beyond which two different stretches of events are not aligned within."""

_OUTSIDE = "state kept between runs, the clock, files or random numbers of another library"


@dataclass(frozen=True, slots=True)
class Parting:
    """The first events that differ: in the output while the inputs agree, or because the sequences fork.

    One of the events is None where a sequence ends. `inputs_differ` says that the inputs differ too, although
    no earlier event of the trace wrote different bytes: they come from outside the trace. `spreads`: an event that
    reads what differs gives other bits too, so it is more than unwritten scratch memory.
    """

    first: OpEvent | None
    second: OpEvent | None
    forks: bool = False
    inputs_differ: bool = False
    spreads: bool = True

    def __str__(self) -> str:
        if not self.forks:
            return str(self.first)
        return against(self.first, self.second)


def against(first: OpEvent | None, second: OpEvent | None) -> str:
    """Name the two operators at a fork, and their modules."""
    return " against ".join("nothing" if event is None else event.called for event in (first, second))


def first_parting(one: Trace, two: Trace) -> Parting | None:
    """Return where two traces first part, None if every aligned event wrote the same bytes.

    A difference that no later event takes up (scratch results, as the unused seeds of attention kernels) is passed
    over if another one is. Where the sequences of operators fork before the first difference, the fork is
    returned, unless the event after it got the same inputs.
    """
    canonical = one.canonical and two.canonical
    pairs = [(one.events[left], two.events[right]) for left, right in aligned(one.events, two.events)]
    parted = [(first, second) for first, second in pairs if not _same(first.outputs, second.outputs, canonical)]
    unharmed = {first.index for first, _ in pairs} - {first.index for first, _ in parted}
    others = [event for event in one.events if event.index not in unharmed]
    fork = first_fork(one.events, two.events, pairs)
    for first, second in parted:
        if first is not parted[-1][0] and not _reads(others, first, second, canonical):
            continue
        same_inputs = _same_inputs(first, second, canonical)
        if fork is not None and not same_inputs and _before(fork, first):
            return fork
        spreads = _reads(others, first, second, canonical)
        return Parting(first, second, inputs_differ=not same_inputs, spreads=spreads)
    return fork


def _reads(events: Sequence[OpEvent], first: OpEvent, second: OpEvent, canonical: bool) -> bool:
    """Does one of the events read a tensor that differs in the outputs of `first` and `second`?"""
    differing = {
        a.digest for a, b in zip(first.outputs, second.outputs, strict=False) if not agree(a, b, canonical=canonical)
    }
    return any(meta.digest in differing for event in events for meta in event.inputs)


def _before(fork: Parting, event: OpEvent) -> bool:
    return fork.first is not None and fork.first.index <= event.index


def first_fork(
    one: Sequence[OpEvent], two: Sequence[OpEvent], pairs: Sequence[tuple[OpEvent, OpEvent]] | None = None
) -> Parting | None:
    """Return where the sequences of operators first part; `pairs` are the events that belong together."""
    if pairs is None:
        pairs = [(one[left], two[right]) for left, right in aligned(one, two)]
    left = right = 0
    for pair in (*((first.index, second.index) for first, second in pairs), (len(one), len(two))):
        if pair != (left, right):
            first = one[left] if left < len(one) else None
            second = two[right] if right < len(two) else None
            return Parting(first, second, forks=True)
        left, right = pair[0] + 1, pair[1] + 1
    return None


def aligned(one: Sequence[OpEvent], two: Sequence[OpEvent]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices of events that belong together, in order."""
    keys_one, keys_two = [_key(event) for event in one], [_key(event) for event in two]
    shorter = min(len(one), len(two))
    start = 0
    while start < shorter and keys_one[start] == keys_two[start]:
        yield start, start
        start += 1
    end = 0
    while end < shorter - start and keys_one[-1 - end] == keys_two[-1 - end]:
        end += 1
    middle_one, middle_two = keys_one[start : len(one) - end], keys_two[start : len(two) - end]
    if len(middle_one) * len(middle_two) <= _ALIGNABLE:
        for left, right, size in SequenceMatcher(None, middle_one, middle_two, autojunk=False).get_matching_blocks():
            yield from ((start + left + step, start + right + step) for step in range(size))
    yield from ((len(one) - place, len(two) - place) for place in range(end, 0, -1))


def _key(event: OpEvent) -> _Key:
    return event.op, event.module, event.phase


def _same_inputs(first: OpEvent, second: OpEvent, canonical: bool) -> bool:
    plain = [
        [value for value in event.arguments.values() if not isinstance(value, (TensorMeta, tuple))]
        for event in (first, second)
    ]
    return _same(first.inputs, second.inputs, canonical) and repr(plain[0]) == repr(plain[1])


def _same(one: Sequence[TensorMeta], two: Sequence[TensorMeta], canonical: bool) -> bool:
    return len(one) == len(two) and all(agree(a, b, canonical=canonical) for a, b in zip(one, two, strict=True))


def agree(one: TensorMeta, two: TensorMeta, *, canonical: bool) -> bool:
    """Do two tensors hold the same bits, as far as can be told? What was not digested contradicts nothing."""
    if (one.shape, one.dtype) != (two.shape, two.dtype):
        return False
    if one.digest is None or two.digest is None:
        return True
    if not canonical and _steps(one) != _steps(two):
        return True  # digests in memory order do not compare across strides
    return one.digest == two.digest


def _steps(meta: TensorMeta) -> tuple[int, ...] | None:
    """Strides that matter: those of dimensions with more than one place."""
    if meta.strides is None:
        return None
    return tuple(step for step, size in zip(meta.strides, meta.shape, strict=True) if size > 1)


def cause_of(parting: Parting, threads: int = 0) -> tuple[Cause, str]:
    """Why do two runs of one program part here? One sentence, from what the events tell; `threads` were started."""
    event, other = parting.first, parting.second
    if parting.forks or event is None or other is None:
        decided = f"; {_order_of(threads)} may decide which" if threads else ""
        return Cause.UNKNOWN, f"the two runs execute different operators: {parting}{decided}"
    if event.rng is not None:
        source = "a generator of its own" if event.rng.generator == "given" else f"the {event.rng.generator} generator"
        return Cause.RANDOMNESS, f"{event.op} draws from {source}, which is not in the same state in every run"
    if any(meta.unfilled is not None for meta in _suspects(parting)):
        return Cause.UNINITIALIZED, f"{event.op} reads memory that nothing was written to"
    if not parting.inputs_differ:
        return Cause.RUN_TO_RUN, f"{event.op} gives other bits for the same input"
    if all(meta.origin is None for meta in _suspects(parting)):
        if threads:
            return Cause.UNKNOWN, _from_outside(event, _order_of(threads))
        return Cause.STATE, _from_outside(event, _OUTSIDE)
    return written_unseen(event)


def drawn_outside(event: OpEvent, trace: Trace) -> str:
    """Say that an operator reads values that no operator made, where the seed decides them."""
    drawn = trace.unseen_draws
    return _from_outside(event, f"random numbers from {' and '.join(drawn)}" if drawn else _OUTSIDE)


def _from_outside(event: OpEvent, what: str) -> str:
    return f"{event.op} gets other values from outside the model's operators: {what}"


def _order_of(threads: int) -> str:
    return f"the order in which the threads finish that were started ({threads})"


def written_unseen(event: OpEvent) -> tuple[Cause, str]:
    """Say that an operator read other values than those that operators before it wrote."""
    return Cause.UNKNOWN, f"the memory that {event.op} reads was written to where the tracer does not see it"


def _suspects(parting: Parting) -> list[TensorMeta]:
    """Inputs that can explain other outputs: those known to differ, or else those that were never written.

    The destination of an `out=` overload is no input.
    """
    assert parting.first is not None
    assert parting.second is not None
    pairs = [
        pair
        for name, value in parting.first.arguments.items()
        if not (name in parting.first.mutated and "out" in parting.first.op.rpartition(".")[2])
        for pair in zip(tensors_in(value), tensors_in(parting.second.arguments.get(name)), strict=False)
    ]
    differing = [a for a, b in pairs if not agree(a, b, canonical=False)]
    return differing if parting.inputs_differ else [a for a, _ in pairs if a.digest is None]
