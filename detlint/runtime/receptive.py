"""How far a model looks: stride, scale, receptive field, and operators that look everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import ge
from typing import TYPE_CHECKING, Final

from detlint.runtime.flags import Flags, using
from detlint.runtime.images import Images, Region, Unfit, by
from detlint.runtime.taint import Places, Taint, tainted, untainted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from detlint.runtime.events import OpEvent, Trace
    from detlint.runtime.passes import Case, Pass, Runner

_EXACT: Final = Flags(mkldnn_enabled=True)
"""Kernels that convolve directly. NNPACK, which takes over without oneDNN, transforms blocks of pixels (Winograd),
which spreads NaN over the whole block."""
_LOCAL: Final = 0.25
"""An operator that NaN leaves everywhere looks everywhere if it came in on a smaller share than this."""
_LARGEST: Final = 1 << 22
"""Elements of an image that is enlarged to find out how large it must be."""
_SHIFTS: Final = 8
"""Runs that measure the receptive field to the pixel, where the stride is greater than one."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one poisoned run told: places by event and output of the model."""

    ran: Pass
    taint: Taint
    outputs: Mapping[str, Places]

    @property
    def trace(self) -> Trace:
        """What ran."""
        return self.ran.trace


class Field:
    """One size of the image, and what depends on which part of it.

    Raises Unfit where the model refuses NaN, or where no output depends on the image as far as NaN tells.
    """

    def __init__(self, runner: Runner, images: Images, case: Case) -> None:
        self.images = images
        self.case = case
        self._runner = runner
        nothing = tuple((0, 0) for _ in images.sizes)
        ran, taint = self._run(images.poisoned(case, nothing), Taint())
        outputs = {name: tainted(tensor) for name, tensor in ran.output.tensors.items()}
        self.reach = Reading(ran, taint, _known(outputs))
        if not self.reach.outputs:
            raise Unfit(_why_nothing_arrives(self.reach))

    def inside(self, region: Region, within: Region | None = None) -> Reading:
        """Return what depends on nothing outside of a region; constants, such as padding, are left out.

        With `within`, what lies outside of that does not count either.
        """
        ran, taint = self._run(self.images.poisoned(self.case, region, within), Taint(self.reach.taint.arrived))
        if [event.op for event in ran.trace.events] != [event.op for event in self.reach.trace.events]:
            raise Unfit("the model runs other operators when it meets NaN, so its receptive field is not known")
        outputs = {
            name: untainted(tensor, self.reach.outputs[name])
            for name, tensor in ran.output.tensors.items()
            if name in self.reach.outputs
        }
        return Reading(ran, taint, _known(outputs))

    def _run(self, case: Case, taint: Taint) -> tuple[Pass, Taint]:
        try:
            with using(_EXACT):
                return self._runner.run(case, watcher=taint), taint
        except Exception as error:  # models check what they are given in any way they like
            raise Unfit(f"the model refuses an image with NaN: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Axes:
    """Along which dimensions of an output the image extends, and how many places there are for a pixel."""

    dims: tuple[int, ...]
    scale: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a model's outputs lie on its image, in pixels along each dimension of the image.

    Tiles whose borders lie on the `stride` must overlap by `overlap` for every place of the output to come from a
    tile in which it looks over no border. No place looks past a `rim` at what lies behind it. `receptive_field` is
    what one place looks at, at most unless `exact`. `everywhere` is the first operator that looks at the whole image,
    however large: then no overlap is enough. `outputs` are those that hold an image.
    """

    stride: tuple[int, ...]
    outputs: Mapping[str, Axes]
    rim: tuple[int, ...]
    overlap: tuple[int, ...]
    receptive_field: tuple[int, ...] = ()
    exact: bool = False
    everywhere: OpEvent | None = None


def axes_of(
    whole: Mapping[str, torch.Tensor], part: Mapping[str, torch.Tensor], less: tuple[int, ...]
) -> dict[str, Axes]:
    """Find the outputs that hold an image: those that shrink along as many dimensions as the image, which is `less`.

    Dimensions of the output follow in the order of those of the image.
    """
    found = {}
    for name, tensor in whole.items():
        if name in part and part[name].dim() == tensor.dim():
            gaps = [a - b for a, b in zip(tensor.shape, part[name].shape, strict=True)]
            dims = tuple(dim for dim, gap in enumerate(gaps) if gap)
            if len(dims) == len(less):
                scale = tuple(Fraction(gaps[dim], pixels) for dim, pixels in zip(dims, less, strict=True))
                found[name] = Axes(dims, scale)
    return found


def measure(runner: Runner, whole: Field) -> Geometry:
    """Work out the geometry from some five runs of the whole image, and at most ten of smaller ones.

    Where the image is too small for its receptive field, larger ones are made of it.

    Raises:
        Unfit: no output holds an image, or its receptive field cannot be told.
    """
    field, stride = whole, whole.images.stride
    outputs = _outputs(runner, field)
    lost = _lost(field, outputs)
    while lost is None:
        everywhere = _everywhere(field)
        if everywhere is not None:
            return Geometry(stride, outputs, stride, (0,) * len(stride), everywhere=everywhere)
        field = _enlarged(runner, field)
        lost = _lost(field, outputs)
    widest = [max(pixels) for pixels in zip(*lost.values(), strict=True)]
    overlap = tuple(math.ceil(pixels / step) * step for pixels, step in zip(widest, stride, strict=True))
    crop = _crop(runner, field, outputs, lost, overlap)
    return Geometry(stride, outputs, crop.rim, overlap, _receptive_field(crop, outputs), max(stride) <= _SHIFTS)


def _lost(field: Field, outputs: Mapping[str, Axes]) -> dict[str, tuple[Fraction, ...]] | None:
    """Cut the image in two: how many pixels are the places worth, by output and dimension, that look at both parts?

    None where a part is too small to hold all that a place looks at.
    """
    images = field.images
    halves = [step * (size // step // 2) for size, step in zip(images.sizes, images.stride, strict=True)]
    if not all(halves):
        return None
    right = field.inside(tuple(zip(halves, images.sizes, strict=True)))
    left = field.inside(tuple((0, half) for half in halves))
    if not outputs.keys() <= right.outputs.keys() & left.outputs.keys():
        return None
    sides = {name: (field.reach.outputs[name], right.outputs[name], left.outputs[name]) for name in outputs}
    return {
        name: tuple(
            (len(both.indices[dim]) - len(one.indices[dim]) - len(two.indices[dim])) / scale
            for dim, scale in zip(outputs[name].dims, outputs[name].scale, strict=True)
        )
        for name, (both, one, two) in sides.items()
    }


def _outputs(runner: Runner, field: Field) -> dict[str, Axes]:
    """Find the outputs that hold an image, by running a smaller one."""
    images = field.images
    steps = tuple(step * max(1, size // step // 2) for size, step in zip(images.sizes, images.stride, strict=True))
    for less in (steps, images.stride):
        sizes = tuple(size - gap for size, gap in zip(images.sizes, less, strict=True))
        if min(sizes) < 1:
            continue
        try:
            part = runner.run_untraced(images.sized(field.case, sizes)[1])
        except Exception as error:  # models refuse what is too small in any way they like
            refused = error
            continue
        whole = {name: field.reach.ran.output.tensors[name] for name in field.reach.outputs}
        found = axes_of(whole, part, less)
        if not found:
            raise Unfit("no output grows with the image")
        return found
    raise Unfit(f"the model refuses smaller images: {type(refused).__name__}: {refused}")


def _everywhere(field: Field) -> OpEvent | None:
    """Return the first operator of which NaN leaves nothing, though little of what it reads was NaN.

    Poisoned is one stripe across the image, for each dimension in turn.
    """
    images = field.images
    found = []
    for across, step in enumerate(images.stride):
        stripe = tuple((0, step if place == across else size) for place, size in enumerate(images.sizes))
        reading = field.inside(tuple((0, 0) for _ in stripe), within=stripe)
        taint, events = reading.taint, reading.trace.events
        first = min((index for index, _ in taint.shares.keys() - taint.spared.keys()), default=None)
        if first is not None and all(_share(taint, meta.origin) < _LOCAL for meta in events[first].inputs):
            found.append(events[first])
    return min(found, key=lambda event: event.index, default=None)


def _share(taint: Taint, event: int | None) -> float:
    return max((share for (index, _), share in taint.shares.items() if index == event), default=0.0)


def _enlarged(runner: Runner, field: Field) -> Field:
    images = field.images
    sizes = tuple(2 * size for size in images.sizes)
    larger, case = images.sized(field.case, sizes)
    if sum(tensor.numel() for tensor in case.sample.tensors().values()) > _LARGEST:
        raise Unfit(f"the receptive field is larger than {by(images.sizes)} pixels: give a larger image")
    return Field(runner, larger, case)


@dataclass(frozen=True, slots=True, eq=False)
class _Crop:
    """A small image, a region in it that some places look at alone, and the rim around it that no place looks past."""

    field: Field
    rim: tuple[int, ...]
    widths: tuple[int, ...]

    def inside(self, shift: int) -> Reading:
        """Move the region by some pixels, less than the stride in each dimension."""
        starts = [rim + shift % step for rim, step in zip(self.rim, self.field.images.stride, strict=True)]
        return self.field.inside(
            tuple((start, start + width) for start, width in zip(starts, self.widths, strict=True))
        )


def _crop(
    runner: Runner,
    field: Field,
    outputs: Mapping[str, Axes],
    lost: Mapping[str, tuple[Fraction, ...]],
    overlap: tuple[int, ...],
) -> _Crop:
    """Make a crop of which as much is lost as of the whole image.

    Places that look at pixels with gaps between, as dilated convolutions do, look past a rim that is too narrow.
    """
    rim = stride = field.images.stride
    while True:
        widths = tuple(most + 3 * step for most, step in zip(overlap, stride, strict=True))
        least = [width + 2 * margin + step for width, margin, step in zip(widths, rim, stride, strict=True)]
        sizes = tuple(map(next_like, least, field.images.sizes, stride))
        crop = _Crop(Field(runner, *field.images.sized(field.case, sizes)), rim, widths)
        left = crop.inside(0).outputs
        enough = all(
            width - len(left[name].indices[dim]) / scale == pixels
            for name, axes in outputs.items()
            for dim, scale, width, pixels in zip(axes.dims, axes.scale, widths, lost[name], strict=True)
        )
        if enough or all(map(ge, rim, overlap)):
            return crop
        rim = tuple(2 * margin for margin in rim)


def _receptive_field(crop: _Crop, outputs: Mapping[str, Axes]) -> tuple[int, ...]:
    """Measure how many pixels one place looks at: move a region by less than the stride, see what still depends on it.

    Where the stride is too long for every shift to be tried, the result is an upper bound.
    """
    stride = crop.field.images.stride
    longest = max(stride)
    readings = {shift: crop.inside(shift) for shift in range(0, longest, -(-longest // _SHIFTS))}
    return tuple(
        max(_looked_at(readings, name, axes, place, width, step) for name, axes in outputs.items())
        for place, (width, step) in enumerate(zip(crop.widths, stride, strict=True))
    )


def _looked_at(readings: Mapping[int, Reading], name: str, axes: Axes, place: int, width: int, step: int) -> int:
    """Return the most pixels that a place looks at along a dimension, from regions of a width and their shifts.

    A place starts to look where the last region starts that still holds all it looks at, and so for its end.
    """
    period = int(step * axes.scale[place])
    kept = {shift % step: reading.outputs[name].indices[axes.dims[place]] for shift, reading in readings.items()}
    most = 0
    for output in range(period):
        start = max(shift + step * ((output - int(index[0])) // period) for shift, index in kept.items())
        stop = min(shift - step * ((int(index[-1]) - output) // period) for shift, index in kept.items())
        most = max(most, width + stop - start)
    return most


def _why_nothing_arrives(reading: Reading) -> str:
    """Name the operator that NaN does not get through."""
    arrived = {index for index, _ in reading.taint.arrived}
    ends = [
        event
        for event in reading.trace.events
        if event.index not in arrived and any(meta.origin in arrived for meta in event.inputs)
    ]
    if not ends:
        return "no output depends on the image"
    return f"NaN in the image does not get through {ends[-1].op}, so its receptive field is not known"


def next_like(least: int, like: int, step: int) -> int:
    """Return the next size that is a whole number of steps away from another one."""
    return least + (like - least) % step


def _known(found: Mapping[str, object]) -> dict[str, Places]:
    return {name: places for name, places in found.items() if isinstance(places, Places)}
