"""Tiles of an image, and which places of the results may be compared with those of the whole image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from detlint.runtime.images import Unfit, by
from detlint.runtime.receptive import next_like
from detlint.runtime.taint import Places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from detlint.runtime.events import OpEvent
    from detlint.runtime.images import Images, Region
    from detlint.runtime.options import Tiling
    from detlint.runtime.receptive import Axes, Field, Geometry, Reading
    from detlint.runtime.taint import Scattered
    from detlint.runtime.windows import Locate, Window


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the image; `kept` is that without a rim along the borders that are not the image's own."""

    region: Region
    kept: Region

    @property
    def start(self) -> tuple[int, ...]:
        """Where it begins, in pixels."""
        return tuple(start for start, _ in self.region)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How large it is, in pixels."""
        return tuple(stop - start for start, stop in self.region)

    @property
    def inner(self) -> Region:
        """Return `kept` as seen from the tile."""
        return tuple(
            (low - start, high - start) for (low, high), (start, _) in zip(self.kept, self.region, strict=True)
        )

    def __str__(self) -> str:
        return f"tile of {by(self.sizes)} at {by(self.start)}"


def lay(images: Images, geometry: Geometry, tiling: Tiling) -> list[Tile]:
    """Choose tiles of two sizes, inside the image and at its borders.

    Raises:
        Unfit: the image is too small for a tile that gives some places the same.
    """
    margins = zip(geometry.overlap, geometry.rim, geometry.stride, strict=True)
    least = tuple(overlap + 2 * rim + step for overlap, rim, step in margins)
    rows = list(zip(images.sizes, geometry.stride, strict=True))
    if tiling.min_input_size is not None:
        small: Sequence[int] = (tiling.min_input_size,) * len(rows)
        if any(size < need for size, need in zip(small, least, strict=True)):
            raise Unfit(f"Tiling(min_input_size={small[0]}): {_needs(geometry)} tiles of {by(least)} at least")
    else:
        small = [next_like(max(need, size // 4), size, step) for need, (size, step) in zip(least, rows, strict=True)]
    if any(own > size - 2 * step for own, (size, step) in zip(small, rows, strict=True)):
        wanted = [own + 2 * step for own, (_, step) in zip(small, rows, strict=True)]
        raise Unfit(
            f"the image of {by(images.sizes)} is too small: {_needs(geometry)} an image of {by(wanted)} at least"
        )
    large = [next_like(max(own + step, size // 2), own, step) for own, (size, step) in zip(small, rows, strict=True)]
    found = [_tile(images, geometry.rim, small, 1 / 3), _tile(images, geometry.rim, small, 1.0)]
    if all(own <= size - 2 * step for own, (size, step) in zip(large, rows, strict=True)):
        found += [_tile(images, geometry.rim, large, 0.0), _tile(images, geometry.rim, large, 1 / 2)]
    return found


def _needs(geometry: Geometry) -> str:
    field = "the whole image" if geometry.everywhere else f"{by(geometry.receptive_field)} pixels"
    return f"a receptive field of {field} and a stride of {by(geometry.stride)} need"


def _tile(images: Images, rim: Sequence[int], sizes: Sequence[int], share: float) -> Tile:
    """Lay a tile at a share of the way from the first to the last corner, on the grid; never at the border between."""
    region, kept = [], []
    for own, size, step, margin in zip(sizes, images.sizes, images.stride, rim, strict=True):
        room = (size - own) // step
        start = step * (room * int(share) if share in (0.0, 1.0) else max(1, int(room * share)))
        stop = start + own
        region.append((start, stop))
        kept.append((start + margin if start > 0 else 0, stop - margin if stop < size else size))
    return Tile(tuple(region), tuple(kept))


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """The places that the whole image and a tile have in common: in each output, and in what each operator gives."""

    outputs: Mapping[str, tuple[Places, Places]]
    whole: Locate
    part: Locate


def shared(whole: Field, part: Field, tile: Tile, geometry: Geometry) -> Shared:
    """Find the places that depend on nothing outside of the tile.

    Where an operator looks everywhere, there are none behind it: of the outputs, the middle half is taken.
    """
    one, two = whole.inside(tile.kept), part.inside(tile.inner)
    everywhere = geometry.everywhere
    if everywhere is not None:
        outputs = {name: _middle(whole.reach, part.reach, axes, name, tile) for name, axes in geometry.outputs.items()}
    elif all(name in one.outputs and name in two.outputs for name in geometry.outputs):
        outputs = {
            name: _matched(one.outputs[name], two.outputs[name], axes, tile) for name, axes in geometry.outputs.items()
        }
    else:
        raise Unfit(f"no output of a {tile} depends on nothing but the tile")
    index = None if everywhere is None else everywhere.index
    return Shared(outputs, _locate(whole.reach, one, index), _locate(part.reach, two, index))


def _matched(one: Places, two: Places, axes: Axes, tile: Tile) -> tuple[Places, Places]:
    """Keep the places that both sides have: one of the tile lies in the whole where the tile's start moves it."""
    left, right = list(one.indices), list(two.indices)
    for dim, moved in _moves(axes, tile):
        both = left[dim][torch.isin(left[dim], right[dim] + moved)]
        left[dim], right[dim] = both, both - moved
    return Places(tuple(left)), Places(tuple(right))


def _middle(whole: Reading, part: Reading, axes: Axes, name: str, tile: Tile) -> tuple[Places, Places]:
    """Return the middle half of the tile's output, along each dimension."""
    left, right = list(whole.outputs[name].indices), list(part.outputs[name].indices)
    for dim, moved in _moves(axes, tile):
        quarter = len(right[dim]) // 4
        right[dim] = right[dim][quarter : len(right[dim]) - quarter]
        left[dim] = right[dim] + moved
    return Places(tuple(left)), Places(tuple(right))


def _moves(axes: Axes, tile: Tile) -> Iterator[tuple[int, int]]:
    """Yield the dimensions of the output along which the image extends, and by how many places the tile is moved."""
    for dim, scale, start in zip(axes.dims, axes.scale, tile.start, strict=True):
        yield dim, int(start * scale)


def _locate(reach: Reading, kept: Reading, everywhere: int | None) -> Locate:
    """Return a function that says where the shared places lie in what an operator gives.

    In what an operator gives that looks everywhere, they lie where they do in what it reads.
    """
    events = kept.trace.events
    reached = {index for index, _ in reach.taint.arrived}

    def locate(index: int, place: int, shape: tuple[int, ...]) -> Sequence[Window]:
        if index == everywhere:
            read = _read_by(events[index], shape, kept)
            return ((),) if read is None else (read.window(),)  # statistics of the image are compared as they are
        found = kept.taint.spared.get((index, place))
        if found is not None:
            return (found.window(),)
        if (index, place) in reach.taint.arrived:
            return ()
        if index in reached:  # positions of maxima and the like follow from the values
            return (tuple(slice(0, 0) for _ in shape),)
        return ((),)  # does not depend on the image

    return locate


def _read_by(event: OpEvent, shape: tuple[int, ...], kept: Reading) -> Places | Scattered | None:
    """Return the shared places of an input of that shape: those of the last operator that gave it, or a view of it."""
    origins = {meta.origin for meta in event.inputs if meta.shape == shape}
    for earlier in reversed(kept.trace.events[: event.index]):
        for place, meta in enumerate(earlier.outputs):
            if meta.shape == shape and meta.origin in origins and (earlier.index, place) in kept.taint.spared:
                return kept.taint.spared[earlier.index, place]
    return None
