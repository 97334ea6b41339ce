"""What no audit can be made of, and arguments that make no sense, are refused in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import detlint
from detlint.errors import AuditError, UsageError
from tests.runtime.models import X, audited


def test_the_place_is_that_of_the_program_and_not_of_the_standard_library() -> None:
    with pytest.raises(AuditError, match=f"JSONDecodeError: .* at {__file__}:"):
        audited(lambda x: (json.loads("{"), x)[1])


def test_a_scripted_model_is_not_traced_without_values() -> None:
    script = torch.jit.script(nn.Linear(8, 8))
    with pytest.raises(AuditError, match="TorchScript cannot be traced without values"):
        audited(script, X, execute=False)


def numbers(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the third\nline is not shown")


def trained(x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = nn.Linear(8, 1)(x).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


@pytest.mark.parametrize(
    ("model", "sample", "message"),
    [
        pytest.param(nn.Linear(8, 8), [X], r"got list: write \(batch,\) if", id="list-as-sample"),
        pytest.param(nn.Linear(8, 8), torch.ones(3, 5), "model raised RuntimeError: mat1", id="wrong-shape"),
        pytest.param(nn.Linear(8, 8), (X, X), r"TypeError.*write \(batch,\) to pass it", id="too-many-arguments"),
        pytest.param(nn.Linear(8, 8), {"inputs": X}, "the model raised TypeError", id="wrong-name"),
        pytest.param(lambda x: None, X, "returned None", id="none"),
        pytest.param(lambda x: object(), X, "holds no tensors", id="no-tensors"),
        pytest.param(numbers, X, "returned a generator", id="generator"),
        pytest.param(nn.Linear(8, 8), X.to("meta"), "is on meta, but the model is on cpu", id="another-device"),
        pytest.param(nn.Linear(8, 8, device="meta"), X, "on the meta device: pass execute=False", id="no-values"),
        pytest.param(Raises(), X, "ValueError: the third at ", id="raises"),
        pytest.param(3, X, "expected a module or a function, got int", id="no-model"),
        pytest.param(nn.ReLU, X, "ReLU is a class: pass an instance", id="class"),
        pytest.param(trained, X, "it ran under no_grad: write `with torch.enable_grad", id="training-step"),
    ],
)
def test_what_cannot_be_audited_is_said_in_one_line(model: Any, sample: object, message: str) -> None:
    with pytest.raises(AuditError, match=message) as caught:
        audited(model, sample)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"probes": ("repaet",)}, "unknown probe 'repaet'; did you mean 'repeat'", id="probe"),
        pytest.param({"runs": 1}, "at least 2", id="runs"),
        pytest.param({"allow": "anything"}, "expected 'rounding' or 'bitwise'", id="allow"),
        pytest.param({"allow": 1e-5}, "expected 'rounding' or 'bitwise'", id="allow-number"),
        pytest.param({"probes": [1]}, "unknown probe 1", id="probe-number"),
        pytest.param({"probes": None}, "expected some of allocator", id="no-probes"),
        pytest.param({"runs": "3"}, "expected an int", id="runs-word"),
        pytest.param({"runs": 3.0}, "expected an int", id="runs-float"),
        pytest.param({"seed": None}, "seed: expected an int, got NoneType", id="no-seed"),
        pytest.param({"seed": 2**70}, "beyond what torch takes", id="large-seed"),
        pytest.param({"targets": "gpu"}, "unknown device 'gpu'", id="target"),
        pytest.param({"targets": ["cuda:0"]}, "did you mean 'cuda'", id="target-number"),
        pytest.param({"targets": ()}, "targets is empty", id="no-targets"),
        pytest.param({"compile_modes": "fast"}, "unknown mode 'fast'", id="mode"),
        pytest.param({"tiling": (1, 1, 1)}, "expected detlint.Tiling", id="tiling"),
        pytest.param({"batch_dim": "0"}, "expected an int", id="batch-dim"),
        pytest.param({"batch_dim": 7}, "have at most 2 dimensions", id="batch-dim-beyond"),
        pytest.param({"strict": "no"}, "expected True or False", id="strict"),
        pytest.param({"backward": "no"}, "expected True or False", id="backward"),
        pytest.param({"loss": "mse", "backward": True}, "expected a function", id="loss"),
        pytest.param({"loss": torch.sum}, "pass backward=True too", id="loss-alone"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detlint.audit(nn.Linear(8, 8), X, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param(nn.Linear(8, 8), {"device": "meta"}, id="device"),
        pytest.param(lambda x: torch.ones(8, device="meta"), {}, id="output"),
    ],
)
def test_nothing_is_said_of_results_without_values(model: Any, options: dict[str, Any]) -> None:
    with pytest.raises(AuditError, match=r"meta device holds no values to compare \(.*\): pass execute=False"):
        audited(model, X, **options)
    assert audited(model, X, execute=False, **options).events


def test_backward_needs_something_to_train() -> None:
    with pytest.raises(AuditError, match="nothing that requires gradients"):
        audited(lambda x: x * 2, X, backward=True)


def test_two_backward_passes_are_told_apart() -> None:
    with pytest.raises(AuditError, match="…; backward=True calls backward"):
        audited(trained, X, backward=True)
