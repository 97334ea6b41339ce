"""Is a difference mere rounding? Judged against the same computation in float64, or else by an error bound."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.events import TensorMeta
from detlint.runtime.generators import seed_generators
from detlint.runtime.passes import default_loss
from detlint.runtime.report import Verdict
from detlint.runtime.sample import read_output
from detlint.runtime.settings import kept_settings
from detlint.runtime.targets import named_parameters
from detlint.sums import PER_RESULT, sums_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case
    from detlint.sums import Sum

_RATIO: Final = 8.0
"""How many times farther from the reference the worse side may be before it is more than rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Outputs and gradients in float64 by name; where there are none, `reason` says why."""

    tensors: Mapping[str, torch.Tensor]
    reason: str = ""


def in_float64(case: Case) -> Case | None:
    """Return the case with copies of model and sample in float64; None where no copy can be made."""
    owner = case.model if isinstance(case.model, torch.nn.Module) else getattr(case.model, "__self__", None)
    if case.modules and case.modules != (owner,):
        return None
    wide = replace(case, sample=case.sample.copied().mapped(_wide))
    if not isinstance(owner, torch.nn.Module):
        return wide
    twin = copy.deepcopy(owner).double()
    model = twin if owner is case.model else getattr(twin, case.model.__name__)
    return replace(wide, model=model, modules=(twin,))


def compute_reference(case: Case) -> Reference:
    """Run a copy of the model in float64. What the model raises passes through."""
    twin = in_float64(case)
    if twin is None:
        return Reference({}, "the model is a function over modules, of which no float64 copy can be made")
    wide, trained = twin.sample, dict[str, torch.Tensor](named_parameters(twin.modules))
    for tensor in trained.values():
        tensor.grad = None
    with kept_settings(), torch.inference_mode(False), torch.set_grad_enabled(case.grad or case.backward):
        seed_generators(case.seed)
        result = twin.model(*wide.args, **wide.kwargs)
        tensors = dict(read_output(result).tensors)
        if case.backward:
            (default_loss(result) if case.loss is None else case.loss(result)).backward()  # type: ignore[no-untyped-call]
            trained.update({f"input {name}": tensor for name, tensor in wide.tensors().items()})
            tensors.update({f"gradient of {k}": v.grad for k, v in trained.items() if v.grad is not None})
    return Reference(tensors)


def _wide(leaf: object) -> object:
    if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
        wide = leaf.detach().to(torch.complex128 if leaf.is_complex() else torch.float64)
        return wide.requires_grad_(leaf.requires_grad)
    return leaf


def judge(
    one: torch.Tensor, two: torch.Tensor, exact: torch.Tensor | None, events: Iterable[OpEvent], step: float = 0.0
) -> Verdict:
    """Are two tensors, whose bits differ, about equally near to the exact result?

    Without one, they may differ by what the sums that ran (`events`) can lose in their precision, or in that of
    coarser arithmetic, `step`.
    """
    if one.shape != two.shape or one.dtype != two.dtype or not (one.is_floating_point() or one.is_complex()):
        return Verdict.BEYOND_ROUNDING
    first, second = _values(one), _values(two)
    if not torch.equal(_endless(first), _endless(second)):
        return Verdict.BEYOND_ROUNDING
    events = tuple(events)
    step = max(step, _step(one.dtype, events))
    # A model that makes tensors of a fixed dtype inside computes in that one, whatever goes in.
    if exact is None or exact.shape != one.shape or exact.dtype not in (torch.float64, torch.complex128):
        bound = rounding_bound(events, step) * _greatest(first)
        near = _greatest(first - second) <= bound
    else:
        right = _values(exact)
        errors = sorted((_greatest(first - right), _greatest(second - right)))
        near = errors[1] <= _RATIO * max(errors[0], step * _greatest(right))
    return Verdict.ROUNDING if near else Verdict.BEYOND_ROUNDING


def _step(dtype: torch.dtype, events: Iterable[OpEvent]) -> float:
    """Return the precision of a result: of one in double precision that of the finest type that it was computed in.

    A loss that a model returns as a number of Python's was a tensor of float32 before.
    """
    if dtype not in (torch.float64, torch.complex128):
        return torch.finfo(dtype).eps
    computed = {getattr(torch, meta.dtype) for event in events for meta in event.outputs if meta.is_floating}
    return min((torch.finfo(each).eps for each in computed), default=torch.finfo(dtype).eps)


def rounding_bound(events: Iterable[OpEvent], step: float) -> float:
    """Bound the relative error that the sums of a pass build up: the root of each length, times the precision."""
    return bound_of(sum(map(growth, events)), step)


def bound_of(grown: float, step: float) -> float:
    """Bound the relative error of results that let it grow by `grown` steps of precision.

    What differs by a quarter of the greatest value is never mere rounding.
    """
    return min(4 * step * (1 + grown), 0.25)


def growth(event: OpEvent) -> float:
    """By how many steps of precision does an operator let the error grow? The root of the length of its sums."""
    return math.sqrt(terms_of(event))


def terms_of(event: OpEvent) -> int:
    """How many terms does an element of the result add up, as far as names and shapes tell?

    Sums in half precision count as one: they are made in float32, and only the result is rounded, unless they are
    stepwise.
    """
    entries = sums_of(event.name.rpartition(".")[2])
    if any(meta.dtype in ("float16", "bfloat16") for meta in event.outputs):
        entries = tuple(entry for entry in entries if entry.stepwise)
    return max((_terms(entry, event) for entry in entries), default=1)


def _terms(entry: Sum, event: OpEvent) -> int:
    if entry.terms == PER_RESULT:
        results = [meta.numel for meta in event.outputs if meta.is_floating and meta.numel]
        read = max((meta.numel for meta in event.inputs if meta.is_floating), default=1)
        return max(1, read // min(results, default=read or 1))
    summed = event.arguments.get(entry.argument)
    return max(1, entry.count(summed.shape)) if isinstance(summed, TensorMeta) else 1


def _values(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).to(torch.float64)


def _endless(values: torch.Tensor) -> torch.Tensor:
    """Return what is not finite, infinities apart by their sign; 0 for the rest."""
    return torch.where(values.isfinite(), 0.0, values).nan_to_num(nan=2.0, posinf=1.0, neginf=-1.0)


def _greatest(tensor: torch.Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
