"""Why are PyTorch inference results inconsistent? What people say about it, asked of the auditor.

Advice on the question mixes what is true, what was true, and what never was. Each claim below is put to a small
model; `detlint.audit` says whether it holds on this machine.

Run `python examples/inference_pitfalls.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import detlint


def image_model() -> nn.Module:
    """Convolutions, batch norm and dropout: the usual classifier, small."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64, 10),
    )


def encoder() -> nn.Module:
    """A layer that has a fused path for inference."""
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()


class AlwaysDropping(nn.Module):
    """Functional dropout does not know of eval() unless it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(F.dropout(x, 0.3))  # detlint: ignore[DET202] the pitfall that this example shows


class Leftover(nn.Module):
    """Reads memory that it never wrote to."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.empty(x.shape)
        weights[..., 1:] = 1.0
        return x * weights


IMAGES = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
ROWS = torch.randn(4, 64, generator=torch.Generator().manual_seed(1))
TOKENS = torch.randn(4, 16, 64, generator=torch.Generator().manual_seed(1))


@dataclass(frozen=True)
class Claim:
    """Something that people say; it holds if the probe's verdict on the model is the expected one."""

    text: str
    model: Callable[[], nn.Module]
    sample: torch.Tensor
    probe: str
    same_bits: bool
    setting: Callable[[], AbstractContextManager[object]] = nullcontext


def benchmarking() -> AbstractContextManager[object]:
    """Let cuDNN choose its algorithms by timing."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=True)  # detlint: ignore[DET401] that is the claim


CLAIMS = (
    Claim("without eval(), dropout makes each run another one", image_model, IMAGES, "mode", same_bits=False),
    Claim(
        "after eval(), the same input gives the same bits",
        lambda: image_model().eval(),
        IMAGES,
        "repeat",
        same_bits=True,
    ),
    Claim("eval() turns all dropout off", lambda: AlwaysDropping().eval(), ROWS, "mode", same_bits=True),
    Claim("without eval(), a sample depends on its neighbours", image_model, IMAGES, "batch", same_bits=False),
    Claim(
        "after eval(), the size of the batch does not matter",
        lambda: image_model().eval(),
        IMAGES,
        "batch",
        same_bits=True,
    ),
    Claim(
        "cudnn.benchmark makes runs on the CPU differ",
        lambda: image_model().eval(),
        IMAGES,
        "repeat",
        same_bits=False,
        setting=benchmarking,
    ),
    Claim(
        "no_grad() changes the result of a plain network", lambda: image_model().eval(), IMAGES, "grad", same_bits=False
    ),
    Claim("no_grad() never changes a result", encoder, TOKENS, "grad", same_bits=True),
    Claim(
        "memory that is reused leaks into results", lambda: image_model().eval(), IMAGES, "allocator", same_bits=False
    ),
    Claim("torch.empty() is as good as zeros()", Leftover, ROWS, "allocator", same_bits=True),
    Claim("channels_last is about speed only", lambda: image_model().eval(), IMAGES, "layout", same_bits=True),
    Claim("the number of threads does not matter", lambda: image_model().eval(), IMAGES, "threads", same_bits=True),
    Claim(
        "on the CPU it does not matter which library computes",
        lambda: image_model().eval(),
        IMAGES,
        "backends",
        same_bits=True,
    ),
)


def main() -> None:
    """Put every claim to the test."""
    for claim in CLAIMS:
        with claim.setting():
            result = detlint.audit(claim.model(), claim.sample, probes=[claim.probe]).probes[claim.probe]
        if result.verdict.value in ("skipped", "error"):
            verdict = "untested"
        else:
            verdict = "holds" if (result.verdict.value == "bitwise") == claim.same_bits else "myth"
        figures = f", by at most {result.max_abs:.1e}" if result.outputs else ""
        print(f"{verdict:9} {claim.text}")
        print(f"          {claim.probe}: {result.verdict.value}{figures}")
        if result.reason or result.cause:
            print(f"          {result.reason or result.cause}")


if __name__ == "__main__":
    main()
