"""Which dimension of each input counts samples, and batches made of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from detlint.runtime.sample import Sample
    from detlint.runtime.windows import Window

MADE: Final = 4
"""Samples in a batch that is made of a single one."""
_WAYS: Final = 8
"""Ways to cut the inputs along a dimension that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Batching:
    """A batch, and the dimension that counts its samples in each leaf of the inputs: None where they share it.

    `made`: the sample of the case was a single one, the first here; the others were made of it.
    """

    batch: Sample
    dims: tuple[int | None, ...]
    size: int
    made: bool = False

    def take(self, order: Sequence[int]) -> Sample:
        """Return a batch of these samples, in this order."""
        return self.mapped(lambda tensor, dim: _take(tensor, dim, order))

    def mapped(self, change: Callable[[torch.Tensor, int], torch.Tensor]) -> Sample:
        """Return the batch with each tensor that counts samples changed; `change` gets it with that dimension."""
        dims = iter(self.dims)

        def changed(value: Any) -> object:
            dim = next(dims)
            return value if dim is None else change(value.detach(), dim).requires_grad_(value.requires_grad)

        return self.batch.mapped(changed)

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors that count samples."""
        return [value for value, dim in zip(self.batch.leaves(), self.dims, strict=True) if dim is not None]

    def __str__(self) -> str:
        """Say which dimension of which inputs counts them: "dimension 0 of x and mask counts 4 samples"."""
        named = {id(leaf): name for name, leaf in self.batch.tensors().items()}
        by_dim: dict[int | None, list[str]] = {}
        for value, dim in zip(self.batch.leaves(), self.dims, strict=True):
            if isinstance(value, torch.Tensor):
                by_dim.setdefault(dim, []).append(named[id(value)])
        shared = by_dim.pop(None, [])
        counted = " and ".join(f"dimension {dim} of {', '.join(names)}" for dim, names in by_dim.items())
        made = ", made of one by rolling its last dimension" if self.made else ""
        return f"{counted} counts {self.size} samples{made}" + (f"; shared: {', '.join(shared)}" if shared else "")


def batchings(sample: Sample, dim: int) -> Iterator[Batching]:
    """Yield ways to see a sample as a batch along a dimension of its first tensor, the likeliest first.

    Other tensors of the same size in that dimension are cut there, or in another dimension of that size, or not at
    all. Of a single sample a batch of several is made. Yields nothing where no tensor has that dimension, or
    the first that has it holds no element.
    """
    shapes = [tuple(value.shape) if isinstance(value, torch.Tensor) else () for value in sample.leaves()]
    leader = next((place for place, shape in enumerate(shapes) if -len(shape) <= dim < len(shape)), None)
    if leader is None:
        return
    size = shapes[leader][dim]
    if 0 in shapes[leader]:
        return
    ways = [[dim % len(shape)] if place == leader else _ways(shape, dim, size) for place, shape in enumerate(shapes)]
    for dims in islice(product(*ways), _WAYS):
        found = Batching(sample, dims, size)
        yield found if size > 1 else _made(found)


def _made(one: Batching) -> Batching:
    """Make a batch of a single sample: number i is rolled by i along its last dimension, the first stays."""
    copies = Batching(one.take([0] * MADE), one.dims, MADE)
    return Batching(copies.mapped(_rolled), one.dims, MADE, made=True)


def sample_windows(
    whole: tuple[int, ...], part: tuple[int, ...], size: int, start: int, count: int
) -> tuple[Window, ...]:
    """Where do samples `start` … of a batch of `size` lie in a tensor of shape `whole`?

    `part` is the shape that `count` samples give without the others. Where samples share a dimension with
    something else, as (batch · heads), they may be its outer or, if `count` is 1, its inner part: both are
    returned. Nothing is returned where the shapes do not fit.
    """
    if len(whole) != len(part):
        return ()
    ways: list[list[slice]] = []
    for all_, own in zip(whole, part, strict=True):
        if all_ == own:
            ways.append([slice(None)])
        elif all_ * count == own * size:
            each = own // count
            outer = slice(start * each, (start + count) * each)
            ways.append([outer, slice(start, None, size)] if each > 1 and count == 1 else [outer])
        else:
            return ()
    return tuple(product(*ways))


def _ways(shape: tuple[int, ...], dim: int, size: int) -> list[int | None]:
    same = [dim % len(shape)] if -len(shape) <= dim < len(shape) and shape[dim] == size else []
    others = [place for place, own in enumerate(shape) if own == size and place not in same and size > 1]
    return [*same, *others, None]


def _take(tensor: torch.Tensor, dim: int, order: Sequence[int]) -> torch.Tensor:
    """Keeps the memory format, which `index_select` does not."""
    return torch.cat([tensor.narrow(dim, index, 1) for index in order], dim)


def _rolled(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    last = tensor.dim() - (1 if dim != tensor.dim() - 1 else 2)
    parts = [tensor.narrow(dim, place, 1).roll(place, last) for place in range(tensor.shape[dim])]
    return torch.cat(parts, dim)
