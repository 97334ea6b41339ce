"""Images in a sample: which tensors hold one, how to cut it, and how to poison a part of it."""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

import torch

from detlint.runtime.passes import imagine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from detlint.runtime.events import Trace
    from detlint.runtime.passes import Case

Region: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop along each dimension of the image, in pixels."""

_GROWTH: Final = math.factorial(8)
"""Pixels by which an image without content is made longer: whole steps of every stride up to 10, of 12, 14, 16 …"""


class Unfit(Exception):
    """The model cannot be tiled with this sample; the message says why."""


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a sample: every floating tensor of these `sizes` along these `dims`.

    `stride` is the shift in pixels, along each dimension, that all operators of the model turn into a shift
    of whole places: moved by less, an image meets another grid.
    """

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    stride: tuple[int, ...]

    def cut(self, case: Case, region: Region) -> tuple[Images, Case]:
        """Return a case whose images are that part of the images, in memory of their own."""

        def part(tensor: torch.Tensor) -> torch.Tensor:
            for dim, (start, stop) in zip(self.dims, region, strict=True):
                tensor = tensor.narrow(dim, start, stop - start)
            return tensor.clone()

        sizes = tuple(stop - start for start, stop in region)
        return replace(self, sizes=sizes), self._changed(case, part)

    def sized(self, case: Case, sizes: tuple[int, ...]) -> tuple[Images, Case]:
        """Return images of other sizes: repeated where they are larger, cut where they are smaller."""
        times = {dim: -(-wanted // size) for dim, wanted, size in zip(self.dims, sizes, self.sizes, strict=True)}

        def repeated(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.repeat([times.get(dim, 1) for dim in range(tensor.dim())])

        large = replace(self, sizes=tuple(size * times[dim] for dim, size in zip(self.dims, self.sizes, strict=True)))
        return large.cut(self._changed(case, repeated), tuple((0, size) for size in sizes))

    def poisoned(self, case: Case, kept: Region, within: Region | None = None) -> Case:
        """Return a case whose images are NaN outside of a region, but no farther than within another one."""

        def poisoned(tensor: torch.Tensor) -> torch.Tensor:
            mask = torch.ones_like(tensor, dtype=torch.bool)
            if within is not None:
                mask[...] = False
                mask[self._window(tensor, within)] = True
            mask[self._window(tensor, kept)] = False
            return tensor.masked_fill(mask, torch.nan)

        return self._changed(case, poisoned)

    def _window(self, tensor: torch.Tensor, region: Region) -> tuple[slice, ...]:
        limits = dict(zip(self.dims, region, strict=True))
        return tuple(slice(*limits.get(dim, (None, None))) for dim in range(tensor.dim()))

    def _changed(self, case: Case, change: Callable[[torch.Tensor], torch.Tensor]) -> Case:
        def changed(leaf: object) -> object:
            if _may_be_image(leaf) and leaf.dim() > max(self.dims):
                sizes = tuple(leaf.shape[dim] for dim in self.dims)
                if sizes == self.sizes:
                    return change(leaf.detach())
            return leaf

        return replace(case, sample=case.sample.mapped(changed))


def find_images(case: Case, *, stride: int | None = None, batch_dim: int = 0) -> Images:
    """Find the images of a sample, and the model's stride unless it is given.

    The model is traced without values on images that are longer along one dimension: it either refuses, or the
    growth of each operator's result tells by how much that operator widens or narrows the image.

    Raises:
        Unfit: the sample holds no image, or the model takes images of one size only.
    """
    candidates = [leaf for leaf in case.sample.leaves() if _may_be_image(leaf)]
    if not candidates:
        raise Unfit("the sample holds no floating tensor with three dimensions or more, so no image")
    image = max(candidates, key=torch.Tensor.numel)
    try:
        plain = imagine(_shaped(case, image.shape, image.shape))
    except Exception as error:
        if stride is None:
            raise Unfit(
                f"the model cannot be traced without values ({type(error).__name__}): "
                "say tiling=detlint.Tiling(stride=…)"
            ) from error
        dims = tuple(range(2, image.dim()))
        return Images(dims, tuple(image.shape[dim] for dim in dims), (stride,) * len(dims))
    found = {}
    for dim in range(image.dim()):
        if dim != batch_dim % image.dim():
            steps = _steps(case, image.shape, dim, plain)
            if steps is not None and stride is not None and stride % steps:
                raise Unfit(f"Tiling(stride={stride}): the model's grid repeats every {steps} pixels")
            if steps is not None:
                found[dim] = steps if stride is None else stride
    if not found:
        raise Unfit("the model takes images of one size only")
    return Images(tuple(found), tuple(image.shape[dim] for dim in found), tuple(found.values()))


def _steps(case: Case, shape: Sequence[int], dim: int, plain: Trace) -> int | None:
    """Return the model's stride along a dimension; None where it does not extend along it."""
    longer = [size + _GROWTH * (place == dim) for place, size in enumerate(shape)]
    try:
        with _quiet():
            grown = imagine(_shaped(case, shape, longer))
    except Exception:  # models refuse what does not fit in any way they like
        return None
    if [event.op for event in grown.events] != [event.op for event in plain.events]:
        raise Unfit("the model runs another sequence of operators for an image of another size")
    scales = [
        Fraction(more - less, _GROWTH)
        for one, two in zip(plain.events, grown.events, strict=True)
        for before, after in zip(one.outputs, two.outputs, strict=True)
        for less, more in zip(before.shape, after.shape, strict=True)
    ]
    return math.lcm(*(scale.denominator for scale in scales)) if any(scales) else None


def _shaped(case: Case, shape: Sequence[int], wanted: Sequence[int]) -> Case:
    """Return a case whose images have another shape and no memory to speak of."""

    def changed(leaf: object) -> object:
        if _may_be_image(leaf) and tuple(leaf.shape) == tuple(shape):
            return leaf.detach().new_empty(1).expand(tuple(wanted))
        return leaf

    return replace(case, sample=case.sample.mapped(changed))


def by(sizes: Iterable[object]) -> str:
    """Write sizes as people do: "64 x 96"."""
    return " x ".join(map(str, sizes))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from logging what a model refuses, which is an answer here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _may_be_image(leaf: object) -> TypeGuard[torch.Tensor]:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim() >= 3 and leaf.numel() > 0
