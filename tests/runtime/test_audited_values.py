"""What goes into an audited model and what comes out of it: values of any kind are compared, wherever they lie."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.report import Verdict
from tests.runtime.models import X, audited, unseen_numbers


class _NoisyGradient(torch.autograd.Function):
    source = unseen_numbers(0)

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * next(_NoisyGradient.source)


def test_modules_with_equal_names_of_parameters_keep_their_gradients_apart() -> None:
    one, two = nn.Linear(8, 8), nn.Linear(8, 8)
    report = audited(lambda x: two(_NoisyGradient.apply(one(x))), X, "repeat", backward=True)
    repeat = report.probes["repeat"]
    assert repeat.verdict is Verdict.BEYOND_ROUNDING
    names = {event.module for event in report.events if event.name == "aten.linear"} or {"0", "1"}
    assert names == {"0", "1"}
    assert {item.name.split()[-1] for item in repeat.outputs} in ({"0.weight", "0.bias"}, {"1.weight", "1.bias"})


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(lambda x: {"a.b": x + random_number(), "a": {"b": x}}, id="dots"),
        pytest.param(lambda x: {1: x + random_number(), "1": x}, id="types"),
    ],
)
def test_outputs_with_equal_paths_are_all_compared(output: Callable[[torch.Tensor], object]) -> None:
    result = audited(output).probes["repeat"]
    assert result.verdict is Verdict.BEYOND_ROUNDING


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(lambda x: {"logits": x, "score": random_number()}, id="float"),
        pytest.param(lambda x: {"logits": x, "count": int(random_number() * 1e9)}, id="int"),
        pytest.param(lambda x: {"logits": x, "text": f"{random_number()}"}, id="text"),
        pytest.param(lambda x: {"logits": x, "array": np.full(3, random_number())}, id="array"),
        pytest.param(lambda x: random_number(), id="float-alone"),
    ],
)
def test_numbers_texts_and_arrays_are_compared_too(output: Callable[[torch.Tensor], object]) -> None:
    assert audited(output).probes["repeat"].verdict is not Verdict.BITWISE


def test_a_loss_given_as_a_number_is_judged_in_the_precision_it_was_computed_in() -> None:
    linear = nn.Linear(300, 300)
    result = detlint.audit(lambda x: {"loss": linear(x).sum().item()}, torch.randn(64, 300), probes=["compile"])
    assert result.probes["compile"].verdict in (Verdict.BITWISE, Verdict.ROUNDING)


NUMBERS = unseen_numbers(0)


def random_number() -> float:
    return next(NUMBERS)


@dataclass(frozen=True)
class Batch:
    pixels: torch.Tensor
    sizes: tuple[int, ...] = ()


class Kept(UserDict[str, torch.Tensor]):
    pass


WRAPPED: dict[str, tuple[Callable[[torch.Tensor], object], Callable[[Any], torch.Tensor]]] = {
    "nothing": (lambda x: x, lambda sample: sample),
    "a dataclass": (lambda x: Batch(x, (1,)), lambda batch: batch.pixels),
    "a mapping": (lambda x: Kept(x=x), lambda kept: kept["x"]),
    "one in the other": (lambda x: [Kept(x=Batch(x))], lambda kept: kept[0]["x"].pixels),
}


@pytest.mark.parametrize(("wrap", "unwrap"), WRAPPED.values(), ids=WRAPPED.keys())
def test_probes_change_tensors_wherever_they_lie_in_the_sample(
    wrap: Callable[[torch.Tensor], object], unwrap: Callable[[Any], torch.Tensor]
) -> None:
    def model(sample: Any) -> torch.Tensor:
        x = unwrap(sample)
        return x * (1.0 if x.is_contiguous() else 2.0)

    sample = wrap(X)
    report = audited(model, (sample,), "layout", "batch")
    assert report.probes["layout"].verdict is Verdict.BEYOND_ROUNDING
    assert report.probes["batch"].verdict is Verdict.BITWISE
    assert unwrap(sample) is X
    assert detlint.audit(model, (sample,), device="cpu", probes="repeat", execute=False).events
