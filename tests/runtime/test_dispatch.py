"""What the tables say runs on CUDA, held against traces of the installed torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from detlint.runtime.catalogue import Catalogue
from detlint.runtime.flags import Flags
from detlint.runtime.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_ON = Flags(
    deterministic_mode=0,
    cudnn_deterministic=False,
    cudnn_enabled=True,
    flash_attention=True,
    mem_efficient_attention=True,
    cudnn_attention=True,
)
IMAGE, STEPS, HEADS = torch.ones(2, 4, 8, 8), torch.ones(2, 5, 8), torch.ones(2, 2, 16, 8)
LABELS = torch.zeros(2, 8, 8, dtype=torch.long)


def _deconvolved(x: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose2d(x, torch.ones(4, 4, 3, 3))


FORWARD: dict[str, tuple[Callable[[], object], set[str]]] = {
    "LSTM": (lambda: nn.LSTM(8, 8, batch_first=True)(STEPS), {"rnn-cudnn"}),
    "GRU": (lambda: nn.GRU(8, 8)(STEPS), {"rnn-cudnn"}),
    "RNN": (lambda: nn.RNN(8, 8)(STEPS), {"rnn-cudnn"}),
    "transposed convolution": (lambda: _deconvolved(IMAGE), {"conv-transpose"}),
    "cross entropy of images": (lambda: F.cross_entropy(IMAGE, LABELS), {"nll-loss2d"}),
    "cross entropy of rows": (lambda: F.cross_entropy(torch.ones(2, 4), LABELS[:, 0, 0]), set()),
    "linear": (lambda: F.linear(STEPS, torch.ones(8, 8)), set()),
    "batch norm": (lambda: nn.BatchNorm2d(4)(IMAGE), set()),
    "attention": (lambda: F.scaled_dot_product_attention(HEADS, HEADS, HEADS), set()),
    "grid sample": (lambda: F.grid_sample(IMAGE, torch.zeros(2, 8, 8, 2), align_corners=True), set()),
    "embedding bag": (lambda: nn.EmbeddingBag(10, 8)(LABELS[0]), set()),
}


def predicted(run: Callable[[], object]) -> set[str]:
    """Names of the entries predicted for CUDA."""

    class Model(nn.Module):
        def forward(self) -> object:
            return run()

    with Tracer() as tracer:
        Model()()
    hazards = Catalogue.load(("cuda",), ALL_ON, torch_version="2.13").hazards(tracer.trace().events)
    return {hazard.operator.name for hazard in hazards}


@pytest.mark.parametrize("inference", [False, True], ids=["decomposed", "composite"])
@pytest.mark.parametrize(("run", "expected"), FORWARD.values(), ids=FORWARD.keys())
def test_composite_and_decomposed_traces_predict_the_same(
    run: Callable[[], object], expected: set[str], inference: bool
) -> None:
    with torch.no_grad(), torch.inference_mode(inference):
        assert predicted(run) == expected


def _backward(output: torch.Tensor) -> None:
    output.sum().backward()  # type: ignore[no-untyped-call]


def _leaf(x: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return x.to(dtype).clone().requires_grad_()


def _attention(dtype: torch.dtype, *, mask: bool) -> None:
    query = _leaf(HEADS, dtype)
    bias = torch.zeros(16, 16, dtype=dtype) if mask else None
    _backward(F.scaled_dot_product_attention(query, query, query, attn_mask=bias))


BACKWARD: dict[str, tuple[Callable[[], object], set[str]]] = {
    "attention in single precision": (
        lambda: _attention(torch.float32, mask=False),
        {"efficient-attention-backward"},
    ),
    "attention in half precision": (
        lambda: _attention(torch.bfloat16, mask=False),
        {"flash-attention-backward", "cudnn-attention-backward"},
    ),
    "attention with a mask": (
        lambda: _attention(torch.bfloat16, mask=True),
        {"efficient-attention-backward", "cudnn-attention-backward"},
    ),
    "attention in double precision": (lambda: _attention(torch.float64, mask=False), set()),
    "grid sample, taken by cuDNN": (
        lambda: _backward(F.grid_sample(_leaf(IMAGE), torch.zeros(2, 8, 8, 2), align_corners=True)),
        {"grid-sample-backward", "grid-sample-cudnn-backward"},
    ),
    "grid sample, not taken by cuDNN": (
        lambda: _backward(F.grid_sample(_leaf(IMAGE), torch.zeros(2, 8, 8, 2), align_corners=False)),
        {"grid-sample-backward"},
    ),
    "convolution": (lambda: _backward(F.conv2d(_leaf(IMAGE), torch.ones(4, 4, 3, 3))), {"conv-backward"}),
    "reflection padding of images": (
        lambda: _backward(F.pad(_leaf(IMAGE), (1, 1, 1, 1), mode="reflect")),
        {"reflection-pad2d-backward"},
    ),
    "pooling to one value": (lambda: _backward(F.adaptive_avg_pool2d(_leaf(IMAGE), 1)), set()),
    "layer norm": (lambda: _backward(F.layer_norm(_leaf(STEPS), (8,))), set()),
}


@pytest.mark.parametrize(("run", "expected"), BACKWARD.values(), ids=BACKWARD.keys())
def test_backward_passes_predict_what_cuda_would_run(run: Callable[[], object], expected: set[str]) -> None:
    assert predicted(run) == expected
