"""Does the result hold when products and sums are computed in less precision, as GPUs and autocast do?"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.flags import Flags, read_flags
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.passes import Case

_TF32: Final = 2.0**-10
"""Relative precision of TF32: 10 bits of mantissa."""
_BFLOAT16: Final = torch.finfo(torch.bfloat16).eps


@probe("precision")
class Precision:
    """TF32, bfloat16 inside of float32 products, reduced-precision sums and autocast: each on if off, off if on.

    Differences up to that precision count as rounding.
    """

    canonical = True
    same_program = False
    may_refuse = True
    kind = Cause.PERTURBATION

    def skip_reason(self, case: Case) -> str | None:
        """Only floating tensors have a precision to lose."""
        floating = any(tensor.is_floating_point() for tensor in case.tensors())
        return None if floating else "neither model nor sample holds floating tensors"

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Turn every setting of precision around."""
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
        """Name the first operator that computes in another precision."""
        return f"{event.op} computes in another precision with {change}"


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
