"""Does a place of an image get the same result in a tile as in the whole image?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from detlint.runtime.divergence import against
from detlint.runtime.flags import using
from detlint.runtime.images import Unfit, by, find_images
from detlint.runtime.measure import same_bits, worst
from detlint.runtime.options import Tiling
from detlint.runtime.probes.registry import probe
from detlint.runtime.receptive import Field, measure
from detlint.runtime.report import Cause, Divergence, Explanation, ProbeResult, Verdict
from detlint.runtime.tiles import lay, shared
from detlint.runtime.windows import Alone, Departure, first_departure, watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from detlint.runtime.events import OpEvent
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.receptive import Geometry
    from detlint.runtime.report import Difference
    from detlint.runtime.switches import Switch
    from detlint.runtime.tiles import Shared, Tile
    from detlint.runtime.windows import Side


@probe("tiling")
class TilingProbe:
    """Runs a fully convolutional model on the whole image and on tiles, and compares where tiles must not matter."""

    def skip_reason(self, case: Case) -> str | None:
        """Whether there is an image is found out by running."""
        return None

    def conduct(self, lab: Lab) -> ProbeResult:
        """Measure how far the model looks, lay tiles, compare, and explain the worst."""
        try:
            bench = _Bench(lab)
            trials = [bench.trial(tile) for tile in bench.tiles]
        except Unfit as error:
            return ProbeResult("tiling", Verdict.SKIPPED, reason=str(error))
        trial = max(trials, key=_badness)
        evidence = (*_described(bench.geometry), *map(str, trials))
        result = ProbeResult("tiling", trial.verdict, runs=1 + len(trials), evidence=evidence)
        if trial.verdict is Verdict.BITWISE:
            return result
        result = replace(result, change=str(trial.tile), outputs=trial.differences)
        return result.explained(bench.explain(trial))


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A tile, the places that were compared, and what came out."""

    tile: Tile
    case: Case
    places: Shared
    differences: tuple[Difference, ...]
    verdict: Verdict

    def __str__(self) -> str:
        most = worst(self.differences)
        if most is None:
            return f"{self.tile}: the same bits"
        what = f"{most.differing} of {most.numel} values of {most.name} differ by up to {most.max_abs:.3g}"
        return f"{self.tile}: {self.verdict.value}, {what}"


class _Bench:
    """The whole image, what is known of it, and the runs that are compared with it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._tiling = lab.options.tiling or Tiling()
        self._case = replace(lab.case, backward=False, loss=None, grad=lab.case.grad or lab.case.backward)
        images = find_images(self._case, stride=self._tiling.stride, batch_dim=lab.options.batch_dim or 0)
        self._field = Field(lab.runner, images, self._case)
        self.geometry = measure(lab.runner, self._field)
        self.tiles = lay(images, self.geometry, self._tiling)
        self._whole = lab.runner.run_untraced(self._case)

    def trial(self, tile: Tile) -> _Trial:
        """Compare the places that depend on nothing outside of a tile."""
        images, case = self._field.images.cut(self._case, tile.region)
        part = self._lab.runner.run_untraced(case)
        self._check(tile, part)
        places = shared(self._field, Field(self._lab.runner, images, case), tile, self.geometry)
        exact = self._lab.exact()
        found, verdict = self._lab.compare(
            *_cut(places, self._whole, part),
            exact={name: one.of(exact[name]) for name, (one, _) in places.outputs.items() if name in exact},
        )
        return _Trial(tile, case, places, found, verdict)

    def _check(self, tile: Tile, part: dict[str, torch.Tensor]) -> None:
        """Hold the model to the size of the output that the user names."""
        wanted = self._tiling.min_output_size
        if wanted is None or set(tile.sizes) != {self._tiling.min_input_size}:
            return
        for name, axes in self.geometry.outputs.items():
            sizes = tuple(part[name].shape[dim] for dim in axes.dims)
            if set(sizes) != {wanted}:
                raise Unfit(f"Tiling(min_output_size={wanted}): a {tile} gives {by(sizes)}")

    def explain(self, trial: _Trial) -> Explanation:
        """Name the operator at which a place first departs, run it alone, and test what makes it agree."""
        one, two = self._sides(trial)
        if self.geometry.everywhere is not None:
            return self._spread(one, two, self.geometry.everywhere.index)
        departure = first_departure(one, two, beyond_rounding=trial.verdict is Verdict.BEYOND_ROUNDING)
        departure = departure or first_departure(one, two)
        if departure is None:
            cause = "a place gets another result in a tile, though every operator that was followed gave the same"
            return Explanation(Cause.SHAPE, cause)
        first, second = departure.first, departure.second
        if departure.forks or first is None or second is None:
            cause = f"other operators run for a tile: {against(first, second)}"
            return Explanation(Cause.SHAPE, cause, Divergence(first, second, sequence_forks=True))
        drawn = next((event for event in one.trace.events[: first.index + 1] if event.rng is not None), None)
        if drawn is not None and (drawn is first or departure.unfollowed is not None):
            cause = f"{drawn.op} draws random numbers for the whole image: a place gets others in a tile"
            return Explanation(Cause.RANDOMNESS, cause, Divergence(drawn, two.trace.events[drawn.index]))
        if departure.given:
            cause = f"{first.op} gives a place another number in a tile, and the result depends on it"
            return Explanation(Cause.SHAPE, cause, Divergence(first, second))
        alone = Alone(self._lab.runner, one, two, departure)
        divergence = alone.divergence()
        evidence = [*divergence.told]
        if departure.unfollowed is not None:
            evidence.append(f"places cannot be followed through {departure.unfollowed}, so it may begin there")
        if trial.verdict is Verdict.BEYOND_ROUNDING:
            cause = f"{first.op} gives a place other values in a tile: what it computes depends on where the image ends"
            return Explanation(Cause.SHAPE, cause, divergence, evidence=tuple(evidence), repro=alone.repro(cause))
        cause = f"{first.op} gives a place other bits in a tile"
        repro = alone.repro(cause) if divergence.confirmed else None
        found, tests = alone.tested(divergence, ("the whole image", "the tile"))
        evidence += tests
        cause = found.after(cause)
        for cure in found.cures:
            same, left = self._cured(trial, cure)
            evidence.append(f"the whole model without {cure.name}: {_bits(not same)} bits in this tile")
            if left is not None:
                cause += f"; then {left.op} is the first to give other bits"
        return Explanation(Cause.SHAPE, cause, divergence, found.remedy, tuple(evidence), repro)

    def _spread(self, one: Side, two: Side, index: int) -> Explanation:
        """Say what an operator that looks at the whole image does to tiles."""
        first, second = one.trace.events[index], two.trace.events[index]
        alone = Alone(self._lab.runner, one, two, Departure(first, second))
        divergence = alone.divergence()
        evidence = [*divergence.told]
        before = first_departure(one, two)
        if before is not None and before.first is not None and before.first.index < index:
            evidence.append(f"before that, {before.first.op} in {before.first.module} rounds otherwise")
        where = f" in {first.module} ({first.module_type})" if first.module else ""
        cause = (
            f"{first.op}{where} looks at the whole image: a stripe of pixels reaches all of its result, "
            "so no overlap of tiles is enough"
        )
        return Explanation(Cause.SHAPE, cause, divergence, evidence=tuple(evidence), repro=alone.repro(cause))

    def _cured(self, trial: _Trial, cure: Switch) -> tuple[bool, OpEvent | None]:
        """Run the whole model with what cures one operator: are the bits the same, and if not, where do they part?"""
        with using(cure.off):
            one, two = self._sides(trial)
        whole, part = _cut(trial.places, one.ran.output.tensors, two.ran.output.tensors)
        if all(same_bits(whole[name], part[name]) for name in whole):
            return True, None
        departure = first_departure(one, two)
        return False, None if departure is None else departure.first

    def _sides(self, trial: _Trial) -> tuple[Side, Side]:
        runner = self._lab.runner
        one = watch(runner, self._case, trial.places.whole)
        return one, watch(runner, trial.case, trial.places.part)


def _cut(
    places: Shared, whole: Mapping[str, torch.Tensor], part: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return what both sides hold at the places they share."""
    pairs = places.outputs.items()
    return {name: one.of(whole[name]) for name, (one, _) in pairs}, {
        name: two.of(part[name]) for name, (_, two) in pairs
    }


def _badness(trial: _Trial) -> tuple[int, float]:
    most = worst(trial.differences)
    return trial.verdict.rank, 0.0 if most is None else most.max_abs


def _bits(differ: bool | None) -> str:
    return "other" if differ else "the same"


def _described(geometry: Geometry) -> list[str]:
    """Say what was measured of the model."""
    scales = "; ".join(f"{by(axes.scale)} places of {name} for a pixel" for name, axes in geometry.outputs.items())
    lines = [f"stride {by(geometry.stride)} pixels; {scales}"]
    if geometry.everywhere is None:
        most = "" if geometry.exact else "at most "
        field = f"receptive field {most}{by(geometry.receptive_field)} pixels"
        lines.append(f"{field}: tiles must overlap by {by(geometry.overlap)}")
    else:
        lines.append("receptive field: the whole image; compared is the middle half of each tile")
    return lines
