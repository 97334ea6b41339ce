"""What a probe runs and measures with: the case, its plain run, the exact result, and the ruler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from detlint.runtime.measure import differences, unnested
from detlint.runtime.reference import judge
from detlint.runtime.report import Difference, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from detlint.runtime.events import OpEvent, Trace
    from detlint.runtime.options import Options
    from detlint.runtime.passes import Case, Pass, Runner
    from detlint.runtime.reference import Reference


class Lab:
    """Serves the probes of one audit; what is costly is made once, when the first of them needs it.

    `suspects` picks operators of a trace that can differ by themselves.
    """

    def __init__(
        self,
        runner: Runner,
        case: Case,
        options: Options,
        reference: Callable[[], Reference],
        suspects: Callable[[Trace], Sequence[OpEvent]],
    ) -> None:
        self.runner = runner
        self.case = case
        self.options = options
        self.suspects = suspects
        self._reference = reference
        self._bases: dict[bool, Pass] = {}

    def base(self, *, canonical: bool = False) -> Pass:
        """Return the run without a change, one for each kind of digest."""
        if canonical not in self._bases:
            self._bases[canonical] = self.runner.run(replace(self.case, canonical=canonical))
        return self._bases[canonical]

    def afresh(self) -> Lab:
        """Return one that makes plain runs of its own, under settings that are in force when it does."""
        return Lab(self.runner, self.case, self.options, self._reference, self.suspects)

    def exact(self) -> Mapping[str, torch.Tensor]:
        """Return outputs and gradients of the case in float64, by name; empty where that cannot be had."""
        return self._reference().tensors

    def compare(
        self,
        one: Mapping[str, torch.Tensor],
        two: Mapping[str, torch.Tensor],
        *,
        exact: Mapping[str, torch.Tensor] | None = None,
        events: Sequence[OpEvent] | None = None,
        step: float = 0.0,
    ) -> tuple[tuple[Difference, ...], Verdict]:
        """Measure two sets of tensors and judge them.

        Args:
            exact: the same in float64; that of the whole case if None.
            events: what ran, for an error bound where there is nothing exact; the plain run if None.
            step: relative precision of the arithmetic, where it is coarser than that of the tensors; then their
                dtypes may differ.
        """
        one, two = _unnested(one), _unnested(two)
        if step:
            one, two = promoted(one, two), promoted(two, one)
        found = differences(one, two)
        if not found:
            return (), Verdict.BITWISE
        if one.keys() != two.keys():
            return found, Verdict.BEYOND_ROUNDING
        right = _unnested(self.exact() if exact is None else exact)
        ran = self.base().trace.events if events is None else events
        verdicts = (judge(one[item.name], two[item.name], right.get(item.name), ran, step) for item in found)
        return found, max(verdicts, key=lambda verdict: verdict.rank)


def _unnested(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: unnested(tensor) for name, tensor in tensors.items()}


def promoted(tensors: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Bring floating tensors to the wider dtype of both sides."""
    return {
        name: tensor.to(torch.promote_types(tensor.dtype, others[name].dtype)) if name in others else tensor
        for name, tensor in tensors.items()
    }
