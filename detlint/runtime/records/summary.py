"""A tensor in a few hundred bytes: digest, statistics, and values at fixed positions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from detlint.runtime.digests import Digester, is_fake
from detlint.runtime.measure import plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from detlint.runtime.events import Digest

VALUES: Final = 64
"""Values kept of each tensor."""

_WIDER: Final = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.float64}
"""What few operators take, and what its values are taken from; so are floating types of 8 bits, from float32."""

_CHUNK: Final = 1 << 16
"""Elements that are turned into float64 at a time: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of the finite elements, in float64; `norm` is the square root of the sum of their squares.

    `nan` and `infinite` count the others. A complex number counts as two elements.
    """

    minimum: float
    maximum: float
    mean: float
    norm: float
    nan: int = 0
    infinite: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What is kept of a tensor.

    `digest` is taken in logical order, whatever the strides; a `device_digest` was computed on a device, by another
    function than on the CPU. `values` are VALUES elements, or all where there are no
    more, at positions that follow from the number of elements alone; one dimension, the tensor's own dtype.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    digest: Digest | None
    statistics: Statistics | None = None
    values: torch.Tensor | None = None
    device_digest: bool = False

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def summarize(
    tensor: torch.Tensor, digest: Digest | None, *, device_digest: bool = False, measured: bool = True
) -> Summary:
    """Summarize a tensor whose digest is known; tensors without values (fake, nested, wrapped) keep none.

    Statistics are the dear part: they are left out unless `measured`.
    """
    statistics = values = None
    if not (is_fake(tensor) or tensor.is_meta or tensor.is_nested or is_traceable_wrapper_subclass(tensor)):
        flat = plain_values(tensor)
        flat = flat.to(_WIDER.get(flat.dtype, flat.dtype))
        flat = flat.float() if flat.is_floating_point() and flat.element_size() == 1 else flat
        statistics = _statistics(flat) if measured and flat.numel() else None
        values = flat[_positions(flat.numel(), flat.device)].cpu()
    return Summary(
        shape=tuple(tensor.shape) if not tensor.is_nested else (),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        digest=digest,
        statistics=statistics,
        values=values,
        device_digest=device_digest,
    )


def summarize_all(tensors: Mapping[str, torch.Tensor], *, measured: bool = True) -> dict[str, Summary]:
    """Summarize tensors by name; their digests are taken on the CPU, so that they compare between devices."""
    digester = Digester(canonical=True)
    return {
        name: summarize(tensor, digester.digest(tensor.detach().cpu()), measured=measured)
        for name, tensor in tensors.items()
    }


@lru_cache(maxsize=4096)
def _positions(numel: int, device: torch.device) -> torch.Tensor:
    """Return VALUES positions from the first to the last, evenly spaced and rounded down."""
    if numel <= VALUES:
        return torch.arange(numel, device=device)
    return torch.tensor([place * (numel - 1) // (VALUES - 1) for place in range(VALUES)], device=device)


def _statistics(flat: torch.Tensor) -> Statistics:
    statistics = _of_finite(flat)
    if math.isfinite(statistics.norm):
        return statistics
    rest = flat[flat.isfinite()]
    nan = int(flat.isnan().sum())
    statistics = _of_finite(rest) if rest.numel() else Statistics(math.nan, math.nan, math.nan, 0.0)
    return replace(statistics, nan=nan, infinite=flat.numel() - nan - rest.numel())


def _of_finite(flat: torch.Tensor) -> Statistics:
    """Minimum and maximum are exact; the sums are those of chunks, which are read from memory once."""
    size = min(flat.numel(), _CHUNK if flat.device.type == "cpu" else flat.numel())
    scratch = torch.empty(size, dtype=torch.float64, device=flat.device)
    ends, sums = list[torch.Tensor](), list[torch.Tensor]()
    for chunk in torch.split(flat, size):
        ends += chunk.aminmax()
        wide = scratch[: chunk.numel()].copy_(chunk)
        sums += [wide.sum(), wide.dot(wide)]
    extremes = torch.stack(ends).to(torch.float64)
    totals = torch.stack(sums).view(-1, 2).sum(0)
    least, greatest, added, squared = torch.stack([extremes.min(), extremes.max(), *totals]).tolist()
    return Statistics(least, greatest, added / flat.numel(), math.sqrt(squared))
