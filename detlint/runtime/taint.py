"""Which places of a tensor depend on which part of the input? Asked of the model itself, by poisoning with NaN.

NaN goes through convolutions, pooling, norms, interpolation and matrix products into every place that reads it.
So a run whose image is NaN outside of a region leaves finite just what depends on nothing but that region; no
table of layers is needed, and reshapes need no arithmetic.
"""

from __future__ import annotations

import math
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
        """Return what a tensor holds there; no gradient is wanted of it."""
        tensor = tensor.detach()
        for dim, index in enumerate(self.indices):
            if len(index) != tensor.shape[dim]:
                tensor = tensor.index_select(dim, index.to(tensor.device))
        return tensor

    def within(self, outer: Places) -> Places:
        """Return these places, counted among the outer ones, as places of the tensor."""
        return Places(tuple(all_[index] for all_, index in zip(outer.indices, self.indices, strict=True)))

    def window(self) -> Window:
        """Return them as slices where that is possible, else as lists of indices."""
        slices = tuple(map(_slice, self.indices))
        if None not in slices:
            return tuple(item for item in slices if item is not None)
        return torch.meshgrid(*self.indices, indexing="ij")


@dataclass(frozen=True, slots=True, eq=False)
class Scattered:
    """Places that are no combinations of indices, as those of a cut image whose parts went into several dimensions."""

    mask: torch.Tensor

    def window(self) -> Window:
        """Return them as a mask: what is selected with it is a list."""
        return (self.mask,)


def tainted(tensor: torch.Tensor) -> Places | None:
    """Return the places with a NaN; None if there are none. What is no floating tensor cannot hold one."""
    return _grid(tensor.isnan()) if _holds_nan(tensor) else None


def untainted(tensor: torch.Tensor, among: Places) -> Places | Scattered | None:
    """Return the places without a NaN among some; None if there are none."""
    clean = among.of(tensor).isnan().logical_not_()
    grid = _grid(clean)
    if grid is None:
        return None
    found = grid.within(among)
    if int(clean.count_nonzero()) == math.prod(map(len, grid.indices)):
        return found
    mask = torch.zeros_like(tensor, dtype=torch.bool)
    mask[torch.meshgrid(*among.indices, indexing="ij")] = clean
    return Scattered(mask)


class Taint:
    """Watches a poisoned run and notes for each output of an operator where NaN arrived.

    A pointwise operator that drops a NaN (`where`, `nan_to_num`) has it put back, since its result still depends on
    the poisoned value. With `among`, what arrived everywhere in another run, notes where of that none arrived.
    """

    def __init__(self, among: Mapping[Key, Places] | None = None) -> None:
        self._among = among
        self._lost: torch.Tensor | None = None
        self._unfilled = False
        self.arrived: dict[Key, Places] = {}
        """Where NaN is."""
        self.spared: dict[Key, Places | Scattered] = {}
        """Where of `among` it is not."""
        self.shares: dict[Key, float] = {}
        """Which part of each output is NaN, from 0 to 1."""

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
            if not _holds_nan(tensor) or not tensor.numel() or self._unfilled:
                continue
            if self._lost is not None and self._lost.shape == tensor.shape:
                tensor.masked_fill_(self._lost, torch.nan)
            self._note((index, place), tensor)

    def _note(self, key: Key, tensor: torch.Tensor) -> None:
        if self._among is None:
            found = tainted(tensor)
            if found is not None:
                self.arrived[key] = found
        elif key in self._among:
            self.shares[key] = int(tensor.isnan().count_nonzero()) / tensor.numel()
            spared = untainted(tensor, self._among[key])
            if spared is not None:
                self.spared[key] = spared


def _holds_nan(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.layout is torch.strided


def _grid(mask: torch.Tensor) -> Places | None:
    """Return the indices of each dimension under which a mask holds somewhere; None if it holds nowhere."""
    found = _axes(mask) if mask.dim() else [mask.flatten()]
    if not bool(found[0].any()):
        return None
    return Places(tuple(axis.nonzero().flatten().cpu() for axis in found) if mask.dim() else ())


def _axes(mask: torch.Tensor) -> list[torch.Tensor]:
    """Say for each index of each dimension whether a mask holds under it; halves dimensions, to pass it only twice."""
    if mask.dim() == 1:
        return [mask]
    half = mask.dim() // 2
    first, second = list(range(half)), list(range(half, mask.dim()))
    return [*_axes(mask.any(second)), *_axes(mask.any(first))]


def _slice(index: torch.Tensor) -> slice | None:
    """Return ascending indices as a slice; None where their steps differ."""
    steps = set(index.diff().tolist())
    return None if len(steps) > 1 else slice(int(index[0]), int(index[-1]) + 1, steps.pop() if steps else 1)
