"""Which places of a tensor depend on which part of the input? Asked of the model itself, by poisoning with NaN.

NaN goes through convolutions, pooling, norms, interpolation and matrix products into every place that reads it.
So a run whose image is NaN outside of a region leaves finite just what depends on nothing but that region; no
table of layers is needed, and reshapes need no arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from detlint.runtime.overloads import facts_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from detlint.runtime.windows import Window

Key: TypeAlias = tuple[int, int]
"""Index of an event, and place among its outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """All combinations of these indices, one ascending list for each dimension of a tensor."""

    indices: tuple[torch.Tensor, ...]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what a tensor holds there."""
        for dim, index in enumerate(self.indices):
            if len(index) != tensor.shape[dim]:
                tensor = tensor.index_select(dim, index.to(tensor.device))
        return tensor

    def within(self, outer: Places) -> Places:
        """Return these places, counted among the outer ones, as places of the tensor."""
        return Places(tuple(all_[index] for all_, index in zip(outer.indices, self.indices, strict=True)))

    def window(self) -> Window | None:
        """Return them as slices, but for one dimension at most; None where that is not enough."""
        window = tuple(map(_slice, self.indices))
        return window if sum(not isinstance(item, slice) for item in window) < 2 else None


def tainted(tensor: torch.Tensor) -> Places | None:
    """Return the places with a NaN; None if there are none. What is no floating tensor cannot hold one."""
    return _where(tensor.isnan()) if _holds_nan(tensor) else None


def untainted(tensor: torch.Tensor, among: Places) -> Places | None:
    """Return the places without a NaN among some; None if there are none, or if they do not form a grid."""
    clean = among.of(tensor).isnan().logical_not_()
    found = _where(clean)
    return found.within(among) if found is not None and bool(found.of(clean).all()) else None


class Taint:
    """Watches a poisoned run and notes for each output of an operator where NaN arrived.

    A pointwise operator that drops a NaN (`where`, `nan_to_num`) has it put back, since its result still depends on
    the poisoned value. With `among`, what arrived everywhere in another run, notes where of that none arrived.
    """

    def __init__(self, among: Mapping[Key, Places] | None = None) -> None:
        self._among = among
        self._lost: torch.Tensor | None = None
        self.places: dict[Key, Places] = {}
        self.shares: dict[Key, float] = {}
        """Which part of each output is NaN, from 0 to 1."""
        self.covered: set[Key] = set()
        """Outputs where NaN left nothing of `among`."""

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember where the inputs of a pointwise operator are NaN: it may write over them."""
        self._lost = None
        self._unfilled = facts_of(func).unfilled
        if torch.Tag.pointwise in getattr(func, "tags", ()):
            for tensor in filter(_holds_nan, tensors_of((args, kwargs))):
                mask = tensor.isnan()
                self._lost = mask if self._lost is None else self._lost | mask

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        """Note where NaN arrived, or did not."""
        for place, tensor in enumerate(outputs):
            if not _holds_nan(tensor) or self._unfilled:
                continue
            if self._lost is not None and self._lost.shape == tensor.shape:
                tensor.masked_fill_(self._lost, torch.nan)
            key = index, place
            self.shares[key] = float(tensor.isnan().float().mean()) if tensor.numel() else 0.0
            if self._among is None:
                found = tainted(tensor)
            elif key in self._among:
                found = untainted(tensor, self._among[key])
                if found is None and bool(self._among[key].of(tensor).isnan().all()):
                    self.covered.add(key)
            else:
                continue
            if found is not None:
                self.places[key] = found


def _holds_nan(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.layout is torch.strided


def _where(mask: torch.Tensor) -> Places | None:
    """Return the indices of each dimension under which a mask holds somewhere; None if it holds nowhere."""
    if not bool(mask.any()):
        return None
    dims = range(mask.dim())
    others = [[other for other in dims if other != dim] for dim in dims]
    return Places(tuple((mask.any(rest) if rest else mask).nonzero().flatten().cpu() for rest in others))


def _slice(index: torch.Tensor) -> slice | torch.Tensor:
    steps = set(index.diff().tolist())
    if len(steps) > 1:
        return index
    return slice(int(index[0]), int(index[-1]) + 1, steps.pop() if steps else 1)
