"""By how much do two tensors differ? In float64, in units of the last place, in decibels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.digests import Digester
from detlint.runtime.report import QUANTILES, Difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_INTEGERS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_LARGEST: Final = torch.iinfo(torch.int64).max


def differences(one: Mapping[str, torch.Tensor], two: Mapping[str, torch.Tensor]) -> tuple[Difference, ...]:
    """Measure every tensor whose bits differ; one that only one side has counts as infinitely different."""
    found = []
    for name in dict.fromkeys((*one, *two)):
        if name in one and name in two:
            found.append(difference(name, one[name], two[name]))
        else:
            tensor = one.get(name, two.get(name))
            found.append(_incomparable(name, tensor.numel() if tensor is not None else 0))
    return tuple(item for item in found if item is not None)


def difference(name: str, one: torch.Tensor, two: torch.Tensor) -> Difference | None:
    """Measure two tensors; None if all bits agree."""
    one, two = unnested(one), unnested(two)
    if one.shape != two.shape or one.dtype != two.dtype:
        return _incomparable(name, one.numel())
    if same_bits(one, two):
        return None
    a, b = plain_values(one), plain_values(two)
    numbers = 2 if one.is_complex() else 1
    differing = (_bits(a) != _bits(b)).view(-1, numbers).any(dim=1)
    first, second = _wide(a), _wide(b)
    gap = (first - second).abs().nan_to_num_(nan=math.inf, posinf=math.inf)
    gap[(first == second) | (first.isnan() & second.isnan())] = 0.0  # infinities and NaNs on both sides
    scale = torch.maximum(first.abs(), second.abs())
    relative = torch.where(gap > 0, gap / scale, 0.0).nan_to_num_(nan=math.inf, posinf=math.inf)
    worst = int(gap.argmax())
    return Difference(
        name=name,
        numel=one.numel(),
        differing=int(differing.sum()),
        max_abs=float(gap[worst]),
        max_rel=float(relative.max()),
        max_ulp=_ulps(a, b),
        place=tuple(int(index) for index in torch.unravel_index(torch.tensor(worst // numbers), one.shape)),
        percentiles=_percentiles(gap),
        psnr=_psnr(first, gap),
    )


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Are two tensors equal bit by bit, in whatever strides they lie?"""
    digester = Digester(canonical=True)
    digests = [digester.digest(one), digester.digest(two)]
    tickets = digester.fetch()
    first, second = (None if digest is None else tickets.get(digest, digest) for digest in digests)
    return one.shape == two.shape and one.dtype == two.dtype and first == second


def worst(differences: Iterable[Difference]) -> Difference | None:
    """Return the greatest difference."""
    return max(differences, key=lambda item: (item.max_abs, item.differing), default=None)


def _incomparable(name: str, numel: int) -> Difference:
    endless = (math.inf,) * len(QUANTILES)
    return Difference(name, numel, numel, math.inf, math.inf, _LARGEST, (), endless, None)


def unnested(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a nested tensor one after the other; any other tensor as it is."""
    return torch.cat([part.reshape(-1) for part in tensor.unbind()]) if tensor.is_nested else tensor


def plain_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in logical order, in one dimension; a complex number as two."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous().flatten()


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(_INTEGERS[tensor.element_size()])


def _ulps(one: torch.Tensor, two: torch.Tensor) -> int:
    """Count the representable numbers between the two sides; the place of the greatest count is not told."""
    if not one.is_floating_point():
        return int((_wide(one) - _wide(two)).abs().max())
    gap = _line(one).sub(_line(two)).abs() if one.element_size() < 8 else _saturated(_line(one), _line(two))
    return int(gap.max())


def _line(tensor: torch.Tensor) -> torch.Tensor:
    """Number the floats of a dtype in their order, both zeros as 0."""
    bits = _bits(tensor)
    lowest = torch.iinfo(bits.dtype).min
    bits = bits.to(torch.int64)
    return torch.where(bits < 0, lowest - bits, bits)


def _saturated(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    apart = (one < 0) != (two < 0)
    room = _LARGEST - one.abs()
    return torch.where(
        apart & (two.abs() > room), _LARGEST, torch.where(apart, one.abs() + two.abs(), (one - two).abs())
    )


def _percentiles(gap: torch.Tensor) -> tuple[float, ...]:
    ordered = gap.sort().values
    last = ordered.numel() - 1
    return tuple(float(ordered[math.ceil(last * share / 100)]) for share in QUANTILES)


def _psnr(first: torch.Tensor, gap: torch.Tensor) -> float | None:
    """Peak signal-to-noise ratio; the peak is the first side's greatest finite magnitude."""
    mean_square = float(gap.square().mean())
    peak = float(first.abs().nan_to_num(nan=0.0, posinf=0.0).max())
    if mean_square == 0.0:
        return None
    if peak == 0.0 or math.isinf(mean_square):
        return -math.inf
    return 10 * math.log10(peak * peak / mean_square)
