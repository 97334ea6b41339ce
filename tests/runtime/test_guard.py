"""An audit leaves nothing behind: every attribute is compared, after success and after exceptions."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from detlint.errors import AuditError
from detlint.runtime.audit import audit
from detlint.runtime.probes import PROBES
from tests.runtime.states import assert_same, state_of


class Unruly(nn.Module):
    """Touches everything that an audit must put back."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.steps = 0
        self.seen: list[int] = []
        self.settings: dict[str, int] = {"a": 1}
        self.action: Callable[[Unruly], None] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.steps += 1
        self.seen.append(self.steps)
        self.settings["b"] = self.steps
        self.cache = x.detach()
        x += 1.0
        with torch.no_grad():
            self.frozen.mul_(1.5)
            self.linear.bias.data.add_(1.0)
        self.frozen.requires_grad_(not self.frozen.requires_grad)
        self.drop.p = 0.25
        self.linear.register_forward_hook(lambda module, args, output: output)
        self.register_buffer("late", torch.ones(1))
        random.random()
        np.random.rand()
        torch.rand(1)
        result = self.drop(self.norm(self.linear(x))) * self.frozen
        self.train(not self.training)
        if self.action is not None:
            self.action(self)
        return result


@pytest.fixture
def model() -> Unruly:
    torch.manual_seed(0)
    model = Unruly()
    model.linear(torch.ones(1, 4)).sum().backward()  # leaves gradients that must stay
    return model


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backward", [True, False])
def test_nothing_is_left_changed(model: Unruly, training: bool, backward: bool) -> None:
    model.train(training)
    sample = torch.arange(12.0).reshape(3, 4)
    before, content = state_of(model), sample.clone()
    audit(model, sample, backward=backward, runs=2)
    assert_same(before, state_of(model))
    assert torch.equal(sample, content)


@pytest.mark.parametrize("name", sorted(PROBES))
def test_no_probe_leaves_a_change(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.1), nn.ReLU(), nn.Conv2d(8, 3, 3))
    images = torch.randn(2, 3, 24, 24)
    before, content = state_of(model), images.clone()
    audit(model, images, probes=[name])
    assert_same(before, state_of(model))
    assert torch.equal(images, content)


@pytest.mark.parametrize("name", sorted(PROBES.keys() - {"compile"}))  # the compiler gives up on such a model at once
def test_no_probe_leaves_a_change_of_a_model_that_changes_itself(model: Unruly, name: str) -> None:
    before = state_of(model)
    audit(model, torch.arange(12.0).reshape(3, 4), probes=[name])
    assert_same(before, state_of(model))


def _raise(model: Unruly) -> None:
    raise ValueError("on purpose")


def _stop(model: Unruly) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("action", "error"),
    [pytest.param(_raise, AuditError, id="exception"), pytest.param(_stop, KeyboardInterrupt, id="interrupt")],
)
def test_nothing_is_left_changed_by_a_model_that_raises(
    model: Unruly, action: Callable[[Unruly], None], error: type[BaseException]
) -> None:
    model.action = action
    before = state_of(model)
    with pytest.raises(error):
        audit(model, torch.ones(3, 4))
    assert_same(before, state_of(model))


def _settings(model: Unruly) -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(1)
    torch.set_default_device("meta")


def test_settings_that_the_model_changes_are_put_back(model: Unruly) -> None:
    model.action = _settings
    before = state_of(model)
    audit(model, torch.ones(3, 4), probes=("repeat",))
    assert_same(before, state_of(model))


def _rebind(model: Unruly) -> None:
    model.linear.weight.data = torch.zeros(4, 4)
    model.linear.bias = nn.Parameter(torch.zeros(4))
    model.norm = nn.BatchNorm1d(4)


def test_parameters_and_modules_that_are_replaced_come_back(model: Unruly) -> None:
    model.action = _rebind
    before = state_of(model)
    audit(model, torch.ones(3, 4), probes=("repeat",))
    assert_same(before, state_of(model))


def _behind_the_back(model: Unruly) -> None:
    model.linear.weight.detach().numpy()[0, 0] += 1


def test_what_cannot_be_put_back_is_said(model: Unruly) -> None:
    model.action = _behind_the_back
    report = audit(model, torch.ones(3, 4), probes=("repeat",))
    assert any("linear.weight was changed" in spot for spot in report.blind_spots)


def test_parameters_are_copied_only_when_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from detlint.runtime.held import Content

    saved: list[str] = []
    save = Content.save
    monkeypatch.setattr(Content, "save", lambda self: (saved.append(self.name), save(self)))
    audit(nn.Linear(4, 4), torch.ones(1, 4), backward=True, runs=2)
    assert saved == []


def test_shared_parameters_and_buffers_are_restored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.register_buffer("base", torch.zeros(6))
            self.register_buffer("part", self.base[2:4])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.part += 1
            with torch.no_grad():
                self.two.weight.add_(1)
            return self.two(self.one(x)) + self.base.sum()

    model = Tied()
    before = state_of(model)
    assert audit(model, torch.ones(2, 3), probes=("repeat",)).probes["repeat"].verdict.value == "bitwise"
    assert_same(before, state_of(model))
