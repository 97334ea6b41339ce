"""A model is traced on tensors without memory: the same operators, nothing computed, nothing left changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from detlint.runtime.events import Trace
from detlint.runtime.fakes import fake_tensors, with_declared_draws
from detlint.runtime.tracer import Tracer


class Model(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.5)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        return self.head(self.rnn(x)[0])


def fake_trace(model: nn.Module, x: torch.Tensor, *, backward: bool = False) -> Trace:
    with fake_tensors((model,), x) as fake, Tracer((model,)) as tracer:
        output = model(fake)
        if backward:
            output.sum().backward()
    return tracer.trace()


BOOKKEEPING = {"aten.detach.default", "aten.new_empty_strided.default", "aten.copy_.default"}
"""Autograd copies a gradient or takes it over, depending on who else holds it at that moment."""


def operators(trace: Trace) -> list[str]:
    return [event.op for event in with_declared_draws(trace.events) if event.op not in BOOKKEEPING]


def _real() -> nn.Module:
    return Model()


def _on_meta() -> nn.Module:
    with torch.device("meta"):
        return Model()


def _under_fake_mode() -> nn.Module:
    with FakeTensorMode():
        return Model()


BUILDERS = {"real": _real, "on meta": _on_meta, "under a fake mode": _under_fake_mode}


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())
def test_the_same_operators_however_the_model_was_built(build: Callable[[], nn.Module], backward: bool) -> None:
    x = torch.ones(2, 3, 8, 8)
    found = operators(fake_trace(build(), x, backward=backward))
    assert found == operators(fake_trace(_real(), x, backward=backward))
    assert "aten.native_batch_norm.default" in found
    assert ("aten.convolution_backward.default" in found) is backward


def test_nothing_of_the_model_changes() -> None:
    model = Model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    identities = [id(tensor) for tensor in (*model.parameters(), *model.buffers())]
    fake_trace(model, torch.ones(2, 3, 8, 8), backward=True)
    assert [id(tensor) for tensor in (*model.parameters(), *model.buffers())] == identities
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_nothing_of_the_model_changes_when_it_raises() -> None:
    model = Model()
    identities = [id(tensor) for tensor in model.parameters()]
    with pytest.raises(RuntimeError, match="channels"):
        fake_trace(model, torch.ones(2, 5, 8, 8))
    assert [id(tensor) for tensor in model.parameters()] == identities


def test_a_model_too_big_for_memory() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(200_000, 200_000) for _ in range(8)))
    trace = fake_trace(model, torch.ones(1, 200_000))
    assert operators(trace).count("aten.addmm.default") == 8


def test_tied_weights_stay_tied() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    with fake_tensors((model,), None):
        assert model[0].weight is model[1].weight


class Draws(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, 0.0)
        x = F.dropout(x, 0.5, training=False)
        x = F.dropout(x, 0.5)
        return x + torch.rand_like(x)


@pytest.mark.parametrize("inference", [False, True], ids=["decomposed", "composite"])
def test_operators_that_would_draw_are_named(inference: bool) -> None:
    model = Draws()
    with torch.inference_mode(inference):
        events = with_declared_draws(fake_trace(model, torch.ones(4, 4)).events)
    drawn = [(event.op.split(".")[1], event.rng.elements) for event in events if event.rng]
    assert drawn == [("dropout" if inference else "bernoulli_", 16), ("rand_like", 16)]
