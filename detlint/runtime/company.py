"""Computes the same samples alone, in batches of other sizes, at other places and with other neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import torch

from detlint.errors import AuditError
from detlint.runtime.batching import Batching, sample_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.report import Difference, Verdict
    from detlint.runtime.sample import Sample
    from detlint.runtime.windows import Window

Outputs: TypeAlias = dict[str, torch.Tensor]

MOST: Final = 8
"""Batch sizes that are tried, and samples that are computed alone, at most."""
_LARGE: Final = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A batch that holds some of the samples, and where in it they lie: place in the whole batch → place here.

    `alone`: they are compared with what the model gives for each without company; otherwise with what it gives
    for them in the batch as it was, which is of the same size. `mixes`: any difference means that samples
    depend on each other's values, since nothing else was changed. `phrase` completes "gives a sample other bits …".
    """

    label: str
    phrase: str
    sample: Sample
    size: int
    places: Mapping[int, int]
    alone: bool = False
    mixes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a trial gave: what differs and how bad that is; `as_whole`: samples got what the whole batch gives them."""

    trial: Trial
    differences: tuple[Difference, ...]
    verdict: Verdict
    as_whole: bool


class Bench:
    """Runs one batch in all these ways. `count` samples go together as the smallest company the model takes."""

    def __init__(self, lab: Lab, case: Case, batching: Batching, count: int, *, evaluating: bool = False) -> None:
        self._lab = lab
        self._case = case
        self._evaluating = evaluating
        self._alone: dict[int, Outputs] = {}
        self.batching = batching
        self.count = count
        self.runs = 0

    def evaluating(self) -> Bench:
        """Return one that calls `eval()` on the model before each run; the guard puts it back after."""
        return Bench(self._lab, self._case, self.batching, self.count, evaluating=True)

    def case_of(self, sample: Sample) -> Case:
        """Return the case that runs the model on a batch."""
        return replace(self._case, sample=sample)

    def sample_alone(self, start: int) -> Sample:
        """Return the smallest batch with the sample at `start`."""
        return self.batching.take(range(start, start + self.count))

    @cached_property
    def whole(self) -> Outputs:
        """What the model gives for the batch; where that is the case itself, from its plain run."""
        if self._evaluating or self.batching.made:
            return self._run(self.batching.batch)
        return dict(self._lab.base().output.tensors)

    def alone(self, start: int) -> Outputs:
        """Return what the model gives for the sample at `start` without company."""
        if start not in self._alone:
            self._alone[start] = self._run(self.sample_alone(start))
        return self._alone[start]

    @cached_property
    def counted(self) -> dict[str, int]:
        """Return the outputs that count samples, and in which dimension; the others cannot be compared."""
        found = {}
        for name, alone in self.alone(self.middle).items():
            whole = self.whole.get(name)
            if whole is not None and self._windows(whole, alone, self.batching.size, self.middle):
                dims = [dim for dim, size in enumerate(alone.shape) if size != whole.shape[dim]]
                if dims:
                    found[name] = dims[0]
        return found

    @property
    def middle(self) -> int:
        """The sample that has most neighbours on both sides."""
        return self.starts[len(self.starts) // 2]

    @cached_property
    def starts(self) -> list[int]:
        """The samples that are looked at: all of a small batch, else some from the first to the last.

        Of a batch made of one sample, that one.
        """
        if self.batching.made:
            return [0]
        every = range(0, self.batching.size - self.count + 1, self.count)
        return _spread(list(every))

    def plain(self) -> Trial:
        """Return the batch as it is, and the sample in the middle alone."""
        return self._sized(self.batching.size, [self.middle])

    def sizes(self) -> Iterator[Trial]:
        """Yield batches of the first samples: powers of two, primes, and the whole."""
        wanted = [size for size in range(2, self.batching.size) if _is_power_of_two(size) or _is_prime(size)]
        for size in _spread([size for size in (*wanted, self.batching.size) if size > self.count]):
            yield self._sized(size, [start for start in self.starts if start + self.count <= size])

    def others(self) -> Iterator[Trial]:
        """Yield batches of the same size: samples moved by one place, then other values in place of the neighbours."""
        size = self.batching.size
        yield self.moved()
        for start in (self.middle,) if len(self.starts) > 2 else self.starts:
            for neighbours, sample in self._neighbours(start):
                yield Trial(
                    f"sample {start} among {neighbours}",
                    f"among {neighbours}",
                    sample,
                    size,
                    {start: start},
                    mixes=True,
                )

    def moved(self) -> Trial:
        """Return the batch with its samples moved by one place."""
        size, count = self.batching.size, self.count
        return Trial(
            "the samples at other places of the batch",
            "at another place of the same batch",
            self.batching.take([(place + count) % size for place in range(size)]),
            size,
            {start: (start - count) % size for start in self.starts},
        )

    def compare(self, trial: Trial) -> Outcome:
        """Run a trial and measure it against what it must be equal to. What the model raises passes through."""
        batch = self.whole if trial.sample is self.batching.batch else self._run(trial.sample)
        here = self._joined(batch, trial.size, trial.places)
        exact = {} if self._evaluating else self._exact(trial.places)
        before = self._joined(self.whole, self.batching.size, {start: start for start in trial.places})
        moved, verdict = self._lab.compare(before, here, exact=exact)
        if not trial.alone:
            return Outcome(trial, moved, verdict, as_whole=not moved)
        alone = self._cat([self.alone(start) for start in trial.places])
        found, against_alone = self._lab.compare(here, alone, exact=exact)
        # What is exact belongs to the whole batch, so a smaller one must be near to the whole one too.
        verdict = max(verdict, against_alone, key=lambda item: item.rank) if found else against_alone
        return Outcome(trial, found, verdict, as_whole=not moved)

    def _sized(self, size: int, starts: Sequence[int]) -> Trial:
        batch = self.batching.batch if size == self.batching.size else self.batching.take(range(size))
        singly, alone = ("one by one", "alone") if self.count == 1 else ("two by two", "in a pair")
        label, phrase = f"batch of {size} against {singly}", f"in a batch of {size} than {alone}"
        return Trial(label, phrase, batch, size, {start: start for start in starts}, alone=True)

    def _neighbours(self, start: int) -> Iterator[tuple[str, Sample]]:
        kept = range(start, start + self.count)
        order = [place if place in kept else start + place % self.count for place in range(self.batching.size)]
        yield "copies of itself", self.batching.take(order)

        def changed(change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
            def apart(tensor: torch.Tensor, dim: int) -> torch.Tensor:
                own = tensor.narrow(dim, start, self.count)
                new = change(tensor) if tensor.is_floating_point() else tensor.clone()
                new.narrow(dim, start, self.count).copy_(own)
                return new

            return self.batching.mapped(apart)

        if any(tensor.is_floating_point() for tensor in self.batching.tensors()):
            yield f"neighbours {_LARGE:g} times as large", changed(lambda tensor: tensor * _LARGE)
            yield "neighbours of NaN", changed(lambda tensor: torch.full_like(tensor, torch.nan))

    def _run(self, sample: Sample) -> Outputs:
        self.runs += 1
        if self._evaluating:
            self._case.evaluate()
        return self._lab.runner.run_untraced(self.case_of(sample))

    def _joined(self, outputs: Mapping[str, torch.Tensor], size: int, places: Mapping[int, int]) -> Outputs:
        """Cut samples out of the outputs of a batch, and join them in order."""
        return self._cat([self._cut(outputs, start, size, place) for start, place in places.items()])

    def _cut(self, outputs: Mapping[str, torch.Tensor], start: int, size: int, place: int) -> Outputs:
        found = {}
        for name in self.counted:
            if name in outputs:
                whole, alone = outputs[name], self.alone(start)[name]
                windows = self._windows(whole, alone, size, place)
                if not windows:
                    shapes = f"{tuple(alone.shape)} does not fit into {tuple(whole.shape)}"
                    raise AuditError(f"{name} of sample {start} without company: {shapes}")
                found[name] = _nearest([whole[window] for window in windows], alone)
        return found

    def _windows(self, whole: torch.Tensor, alone: torch.Tensor, size: int, place: int) -> tuple[Window, ...]:
        return sample_windows(tuple(whole.shape), tuple(alone.shape), size, place, self.count)

    def _cat(self, parts: Sequence[Outputs]) -> Outputs:
        return {
            name: torch.cat([part[name] for part in parts], dim)
            for name, dim in self.counted.items()
            if all(name in part for part in parts)
        }

    def _exact(self, places: Mapping[int, int]) -> Outputs:
        """Return the samples' results in float64."""
        exact = self._lab.exact()
        if self.batching.made:  # the only sample that is looked at is the case itself
            return {name: tensor for name, tensor in exact.items() if name in self.counted}
        fitting = {
            name: exact[name] for name, own in self.whole.items() if name in exact and exact[name].shape == own.shape
        }
        return self._joined(fitting, self.batching.size, {start: start for start in places})


def _nearest(parts: Sequence[torch.Tensor], to: torch.Tensor) -> torch.Tensor:
    """Where a sample may lie in two places of an output, take what is nearer to the sample alone."""
    if len(parts) == 1:
        return parts[0]
    gaps = [float((part.double() - to.double()).abs().nan_to_num(nan=torch.inf).max()) for part in parts]
    return parts[gaps.index(min(gaps))]


def _spread(items: Sequence[int]) -> list[int]:
    """Return all of a few items, else MOST of them, evenly spread from the first to the last."""
    if len(items) <= MOST:
        return list(items)
    return [items[number * (len(items) - 1) // (MOST - 1)] for number in range(MOST)]


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))
