"""How far are two tensors apart, by what is kept of them?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.measure import difference
from detlint.runtime.reference import bound_of
from detlint.runtime.report import Difference, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from detlint.runtime.records.summary import Statistics, Summary

_ROUND_OFF: Final = 1e-12
"""Relative error that sums in float64 may have themselves; it matters only where digests cannot be compared."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How far two tensors are apart.

    `at_least` is a lower bound of the greatest absolute difference: the greatest one of the values kept, of both
    minima, maxima and means, and of both norms over the root of the number of elements. `relative` is its
    share of the greatest magnitude on both sides, and `allowed` what rounding may make of that. `values` are the
    figures over the values kept, where shape and dtype agree.
    """

    numel: int
    at_least: float
    relative: float
    allowed: float
    verdict: Verdict
    values: Difference | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class NamedGap:
    """A tensor that differs; `gap` is None where only one record has it, `step` the step of a training."""

    name: str
    gap: Gap | None
    step: int | None = None

    @property
    def verdict(self) -> Verdict:
        return Verdict.BEYOND_ROUNDING if self.gap is None else self.gap.verdict


def named_gaps(
    one: Mapping[str, Summary],
    two: Mapping[str, Summary],
    allowed: float,
    *,
    pooled: bool = False,
    step: int | None = None,
) -> Iterator[NamedGap]:
    """Yield the tensors that differ, in the order of the first side.

    Where `pooled`, what is noise beside the greatest of all tensors is rounding: some gradients are zero but for that,
    as of a bias before batch norm or of the bias of an attention's keys.
    """
    greatest = max(map(_magnitude, one.values()), default=0.0)
    for name in dict.fromkeys((*one, *two)):
        if name not in one or name not in two:
            yield NamedGap(name, None, step)
            continue
        floor = 4 * precision(one[name].dtype, two[name].dtype) * greatest if pooled else 0.0
        found = gap(name, one[name], two[name], allowed, floor=floor)
        if found is not None:
            yield NamedGap(name, found, step)


def worst_of(gaps: Iterable[NamedGap]) -> Verdict:
    """Return the worst verdict."""
    return max((item.verdict for item in gaps), key=lambda verdict: verdict.rank, default=Verdict.BITWISE)


def differing(one: Mapping[str, Summary], two: Mapping[str, Summary], step: int | None = None) -> list[NamedGap]:
    """Return the tensors that differ by more than being rounded to another dtype."""
    found = []
    for name in dict.fromkeys((*one, *two)):
        if name not in one or name not in two:
            found.append(NamedGap(name, None, step))
            continue
        dtypes = one[name].dtype, two[name].dtype
        between = gap(name, one[name], two[name], precision(*dtypes) if dtypes[0] != dtypes[1] else 0.0)
        if between is not None and (dtypes[0] == dtypes[1] or between.verdict is not Verdict.ROUNDING):
            found.append(NamedGap(name, between, step))
    return found


def allowed_after(terms: float, step: float) -> float:
    """Bound, relative to the greatest value, what rounding does to results that add up so many `terms` on their way.

    Errors are taken for independent, so they grow with the root.
    """
    return bound_of(math.sqrt(terms), step)


def gap(name: str, one: Summary, two: Summary, allowed: float, *, floor: float = 0.0) -> Gap | None:
    """Measure two tensors against a relative error that is `allowed`; None if they agree as far as can be told.

    A difference below `floor`, in absolute terms, is rounding too.
    """
    if one.shape != two.shape:
        return _endless(one, f"shape {list(one.shape)} against {list(two.shape)}")
    if same_digest(one, two):
        return None
    values = _values(name, one, two)
    first, second = one.statistics, two.statistics
    if first is not None and second is not None and (first.nan, first.infinite) != (second.nan, second.infinite):
        return _endless(one, f"{_broken(first)} against {_broken(second)}", values)
    at_least, scale = max(_distance(one, two), _kept_distance(one, two)), max(map(_magnitude, (one, two)))
    note = ""
    if at_least <= _ROUND_OFF * scale:
        if not _comparable(one, two):
            return None
        note = "the bytes differ, in values that were not kept"
        if values is None and (first is None or second is None):
            return _endless(one, note)
    exact = not (_is_floating(one.dtype) and _is_floating(two.dtype))
    near = not exact and at_least <= max(allowed * scale, floor)
    return Gap(
        numel=one.numel,
        at_least=at_least,
        relative=at_least / scale if at_least else 0.0,
        allowed=0.0 if exact else allowed,
        verdict=Verdict.ROUNDING if near else Verdict.BEYOND_ROUNDING,
        values=values,
        note=note,
    )


def same_digest(one: Summary, two: Summary) -> bool:
    """Are the bytes known to be equal?"""
    return _comparable(one, two) and one.digest == two.digest


def precision(*dtypes: str) -> float:
    """The step of the coarsest floating dtype among them, 0 where there is none."""
    return max((torch.finfo(getattr(torch, name)).eps for name in dtypes if _is_floating(name)), default=0.0)


def _is_floating(name: str) -> bool:
    dtype = getattr(torch, name, None)
    return isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)


def _comparable(one: Summary, two: Summary) -> bool:
    """Digests compare between equal dtypes, and where both were taken by the same function."""
    if one.digest is None or two.digest is None:
        return False
    return (one.dtype, one.device_digest) == (two.dtype, two.device_digest)


def _endless(one: Summary, note: str, values: Difference | None = None) -> Gap:
    return Gap(one.numel, math.inf, math.inf, 0.0, Verdict.BEYOND_ROUNDING, values, note)


def _broken(statistics: Statistics) -> str:
    return f"{statistics.nan} NaN and {statistics.infinite} infinite"


def _distance(one: Summary, two: Summary) -> float:
    first, second = one.statistics, two.statistics
    if first is None or second is None:
        return 0.0
    gaps = (
        abs(first.minimum - second.minimum),
        abs(first.maximum - second.maximum),
        abs(first.mean - second.mean),
        abs(first.norm - second.norm) / math.sqrt(one.numel),
    )
    return max((item for item in gaps if math.isfinite(item)), default=0.0)


def _kept_distance(one: Summary, two: Summary) -> float:
    pair = _pair(one, two)
    if pair is None:
        return 0.0
    gaps = (pair[0].to(torch.float64) - pair[1].to(torch.float64)).abs()
    return float(gaps[gaps.isfinite()].max()) if gaps.isfinite().any() else 0.0


def _pair(one: Summary, two: Summary) -> tuple[torch.Tensor, torch.Tensor] | None:
    if one.values is None or two.values is None or one.values.shape != two.values.shape or not one.values.numel():
        return None
    return one.values, two.values


def _values(name: str, one: Summary, two: Summary) -> Difference | None:
    pair = _pair(one, two)
    return None if pair is None or pair[0].dtype != pair[1].dtype else difference(name, *pair)


def _magnitude(summary: Summary) -> float:
    """The greatest finite magnitude, by the statistics or else among the values kept."""
    if summary.statistics is not None:
        ends = abs(summary.statistics.minimum), abs(summary.statistics.maximum)
        return max(ends) if math.isfinite(max(ends)) else 0.0
    if summary.values is None:
        return 0.0
    finite = summary.values[summary.values.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0
