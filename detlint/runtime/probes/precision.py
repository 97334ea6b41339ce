"""Does the result hold when products and sums are computed in less precision, as GPUs and autocast do, or in more?"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.comparison import Comparer
from detlint.runtime.flags import Flags, read_flags
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.reference import in_float64
from detlint.runtime.report import Cause, Divergence, Explanation, ProbeResult, Verdict
from detlint.runtime.windows import first_departure, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case

_WIDE: Final = (torch.float64, torch.complex128)
_TF32: Final = 2.0**-10
"""Relative precision of TF32: 10 bits of mantissa."""
_BFLOAT16: Final = torch.finfo(torch.bfloat16).eps


@probe("precision")
class Precision:
    """Settings of precision turned around; where the result holds under all of them, float64 is asked too."""

    def skip_reason(self, case: Case) -> str | None:
        """Only floating tensors have a precision to lose."""
        floating = any(tensor.is_floating_point() for tensor in case.tensors())
        return None if floating else "neither model nor sample holds floating tensors"

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compare with less precision, which up to a degree must do, and then with more."""
        result = Comparer(lab).compare("precision", _Settings())
        return result if result.verdict is Verdict.BEYOND_ROUNDING else _unlike_float64(lab) or result


def _unlike_float64(lab: Lab) -> ProbeResult | None:
    """Say where the precision of the model itself does not hold; None where it does, or where nothing tells.

    In float64 other random numbers are drawn, so a model that draws any cannot be asked.
    """
    base, twin = lab.base(), in_float64(lab.case)
    exact = {name: tensor for name, tensor in lab.exact().items() if tensor.dtype in _WIDE}
    ours = {name: tensor for name, tensor in base.output.tensors.items() if name in exact}
    dtypes = {meta.dtype for event in base.trace.events for meta in event.outputs if meta.is_floating}
    if twin is None or not ours or not dtypes or any(event.rng is not None for event in base.trace.events):
        return None
    step, dtype = max((torch.finfo(getattr(torch, name)).eps, name) for name in dtypes)
    measured, verdict = lab.compare(ours, {name: exact[name] for name in ours}, exact={}, step=step)
    if verdict is not Verdict.BEYOND_ROUNDING:
        return None
    result = ProbeResult("precision", verdict, change="float64", runs=4, outputs=measured)
    evidence = (f"compared: the same model in float64; the coarsest type that it computes in is {dtype}",)
    departure = first_departure(watch(lab.runner, lab.case), watch(lab.runner, twin), beyond_rounding=True)
    first = None if departure is None else departure.first
    if departure is None or first is None:
        cause = "in float64 the model gives other values"
        return result.explained(Explanation(Cause.PERTURBATION, cause, evidence=evidence))
    cause = f"{first.op} gives other values in float64: {dtype} is too coarse for what is computed here"
    remedy = "compute this in a wider type, or without differences of nearly equal numbers"
    divergence = Divergence(first, departure.second, sequence_forks=departure.forks)
    return result.explained(Explanation(Cause.PERTURBATION, cause, divergence, remedy, evidence))


class _Settings:
    """TF32, bfloat16 inside of float32 products, reduced-precision sums and autocast: each on if off, off if on.

    Differences up to that precision count as rounding.
    """

    canonical = True
    same_program = False
    may_refuse = True
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        return None

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        now = read_flags()
        for device in case.devices():
            active = torch.is_autocast_enabled(device)
            label = f"autocast {'off' if active else 'to bfloat16'} on {device}"
            yield Change(label, partial(_autocast, device, not active), step=_BFLOAT16)
        if "cpu" in case.devices():
            products = "highest" if now.float32_matmul_precision == "medium" else "medium"
            yield Change(
                f"float32 products at {products} precision",
                flags=Flags(float32_matmul_precision=products),
                step=_BFLOAT16,
            )
        if "cuda" in case.devices():
            tf32 = not now.matmul_allow_tf32
            flags = Flags(matmul_allow_tf32=tf32, cudnn_allow_tf32=tf32)
            yield Change(f"TF32 {'on' if tf32 else 'off'}", flags=flags, step=_TF32)
            for name, (value, flags) in _reductions(now).items():
                if value is not None:
                    yield Change(f"{name} {'off' if value else 'on'}", flags=flags, step=_BFLOAT16)

    def explain(self, event: OpEvent, change: str) -> str:
        return f"{event.op} gives other values with {change}"


def _reductions(now: Flags) -> dict[str, tuple[bool | None, Flags]]:
    """Return what lets cuBLAS add in half precision: the settings now, and turned around."""
    half, brain, sums = (
        now.fp16_reduced_precision_reduction,
        now.bf16_reduced_precision_reduction,
        now.fp16_accumulation,
    )
    return {
        "reduced precision in sums of float16": (half, Flags(fp16_reduced_precision_reduction=not half)),
        "reduced precision in sums of bfloat16": (brain, Flags(bf16_reduced_precision_reduction=not brain)),
        "float16 accumulation": (sums, Flags(fp16_accumulation=not sums)),
    }


@contextmanager
def _autocast(device: str, enabled: bool, case: Case) -> Iterator[Case]:
    with torch.autocast(device, torch.bfloat16, enabled=enabled):
        yield case
