"""Does the result depend on how the input lies in memory?"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case


@probe("layout")
class Layout:
    """The same values, contiguous, channels last, with gaps, and at another alignment; the weights too."""

    canonical = True
    same_program = False
    may_refuse = True
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        """Only floating tensors lead to kernels that look at strides."""
        movable = [*_movable_inputs(case), *_movable_weights(case)]
        return None if movable else "there is no floating tensor with elements to move"

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Move all floating tensors of the sample, then the weights."""
        movable = _movable_inputs(case)
        if any(tensor.dim() in (4, 5) for tensor in movable):
            yield Change("channels_last", _moved(_channels_last))
        if movable:
            yield Change("with gaps", _moved(_with_gaps))
            yield Change("at an odd address", _moved(_at_odd_address))
        if _movable_weights(case):
            yield Change("at odd addresses (the weights)", _move_weights)

    def explain(self, event: OpEvent, change: str) -> str:
        """Name the operator whose kernel goes by strides."""
        return f"{event.op} gives other bits when the values lie in memory {change}"


def _movable_inputs(case: Case) -> list[torch.Tensor]:
    return [tensor for tensor in case.sample.tensors().values() if _can_move(tensor)]


def _movable_weights(case: Case) -> list[torch.Tensor]:
    """Weights that were made under inference mode may not be given other memory."""
    weights = [tensor for root in case.modules for tensor in root.parameters()]
    return [tensor for tensor in weights if _can_move(tensor) and not tensor.is_inference()]


def _can_move(tensor: torch.Tensor) -> bool:
    plain = tensor.layout is torch.strided and not tensor.is_nested
    return plain and tensor.is_floating_point() and tensor.numel() > 0


def _moved(move: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Case], AbstractContextManager[Case]]:
    def moved_leaf(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not _can_move(leaf):
            return leaf
        return move(leaf.detach()).requires_grad_(leaf.requires_grad)

    def apply(case: Case) -> AbstractContextManager[Case]:
        return nullcontext(replace(case, sample=case.sample.mapped(moved_leaf)))

    return apply


@contextmanager
def _move_weights(case: Case) -> Iterator[Case]:
    """The guard puts the weights back after each run, and this does so for what is run besides."""
    moved = _movable_weights(case)
    places = [tensor.data for tensor in moved]
    for tensor in moved:
        tensor.data = _at_odd_address(tensor.data)
    try:
        yield case
    finally:
        for tensor, place in zip(moved, places, strict=True):
            tensor.data = place


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats.get(tensor.dim(), torch.contiguous_format))


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.new_zeros((*tensor.shape, 2))
    wide[..., 0] = tensor
    return wide[..., 0]


def _at_odd_address(tensor: torch.Tensor) -> torch.Tensor:
    """One element off: never aligned to a vector register."""
    longer = tensor.new_zeros(tensor.numel() + 1)
    longer[1:] = tensor.reshape(-1)
    return longer[1:].view(tensor.shape)
