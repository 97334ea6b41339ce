"""Trace a model on tensors without memory: which operators would run, with nothing computed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map_only

from detlint.errors import AuditError
from detlint.runtime.events import RngUse
from detlint.runtime.known import KnownValues
from detlint.runtime.trees import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from detlint.runtime.events import OpEvent

_PROBABILITIES = ("p", "dropout_p", "dropout")
_MODES = ("train", "training")


@contextmanager
def fake_tensors(modules: Sequence[nn.Module], sample: Any, known: KnownValues | None = None) -> Iterator[Any]:
    """Yield the sample as fake tensors; inside, parameters and buffers are fake too.

    `known` keeps what can be known of the sample's values, so that the model can ask for them.

    A model too big for memory is built under `torch.device("meta")`, and then traced as if on the CPU, or
    under a `FakeTensorMode` of its own, which is used. What the model does to its tensors is lost on exit.

    Raises:
        AuditError: part of the model is TorchScript, which holds tensors of its own.
    """
    owners = [module for root in modules for module in root.modules()]
    if any(isinstance(owner, torch.jit.ScriptModule) for owner in owners):
        raise AuditError("a model of TorchScript cannot be traced without values: leave out execute=False")
    holders: list[dict[str, Any]] = [holder for owner in owners for holder in (owner._parameters, owner._buffers)]
    before = [dict(holder) for holder in holders]
    tensors = [tensor for held in before for tensor in held.values() if tensor is not None]
    mode = detect_fake_mode(tensors) or FakeTensorMode(allow_non_fake_inputs=True)
    fakes: dict[int, torch.Tensor] = {}  # by identity, so that tied weights stay tied

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        return fakes.setdefault(id(tensor), _fake(mode, tensor))

    def given(tensor: torch.Tensor) -> torch.Tensor:
        fake = faked(tensor)
        values.keep(fake, tensor)
        return fake

    values = known or KnownValues()
    try:
        for holder in holders:
            holder.update(tree_map_only(torch.Tensor, faked, dict(holder)))
        inputs = mapped(sample, lambda leaf: given(leaf) if isinstance(leaf, torch.Tensor) else leaf)
        with mode, values:
            yield inputs
    finally:
        for holder, held in zip(holders, before, strict=True):
            holder.clear()
            holder.update(held)


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, FakeTensor):
        return tensor
    if not tensor.is_meta:
        return mode.from_tensor(tensor)
    # a fake tensor marks its storage as untouchable, so it gets one of its own
    fake = FakeTensor(mode, torch.empty_like(tensor.detach()), torch.device("cpu"))
    return nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake


def with_declared_draws(events: Iterable[OpEvent]) -> tuple[OpEvent, ...]:
    """Say which operators of a fake trace, which moves no generator, would have drawn.

    Leaves out `prim` operators, by which fake tensors answer for their device.
    """
    return tuple(
        replace(event, rng=RngUse("declared", sum(output.numel for output in event.outputs)))
        if _would_draw(event)
        else event
        for event in events
        if not event.op.startswith("prim.")
    )


def _would_draw(event: OpEvent) -> bool:
    """torch tags what can draw; dropout of nothing, or outside of train mode, does not."""
    namespace, name, overload = event.op.split(".")
    operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    arguments = event.arguments
    off = any(arguments.get(key) == 0 for key in _PROBABILITIES)
    return not off and not any(arguments.get(key) is False for key in _MODES)
