"""`history`: a result that depends on the calls before it is found, named, and told from state that does not matter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import AveragedModel

import detlint
from detlint.runtime.report import Cause, Verdict
from tests.runtime.models import audited, exact_linear

X = torch.arange(-16.0, 16.0).reshape(4, 8)


class Stateful(nn.Module):
    """What a call leaves in the model, and makes of it, is up to the classes below."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = exact_linear(8)
        self.calls = 0
        self.kept: torch.Tensor | None = None
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("rows", torch.ones(1, 8))


class CountsCalls(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x) * self.calls


class KeepsFirst(Stateful):
    """The same call again finds what it would have made itself: only other values tell."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept is None:
            self.kept = x.mean(0)
        return self.linear(x) + self.kept


class AddsToBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += 1
        return self.linear(x) + self.total


class AddsToTotal(nn.Module):
    """As `AddsToBuffer`, in the part of Python that TorchScript knows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += 1
        return x + self.total


class ReplacesBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows = torch.cat([self.rows, x])
        return self.linear(self.rows.sum(0))


class WritesWeight(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.linear.weight.mul_(0.5)
        return self.linear(x)


class KeepsForOthers(Stateful):
    """What is kept does not come back into the result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = x
        self.calls += 1
        return self.linear(x)


class BuildsTable(Stateful):
    """A table that is worked out at the first call and is the same ever after."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept is None:
            self.kept = torch.arange(x.shape[-1]).float().cos()
        return self.linear(x) * self.kept


DEPENDENT = {
    CountsCalls: ("calls", "aten.mul.Tensor"),
    KeepsFirst: ("kept", None),
    AddsToBuffer: ("total", "aten.add_.Tensor"),
    ReplacesBuffer: ("rows", "aten.cat.default"),
    WritesWeight: ("linear.weight", "aten.mul_.Tensor"),
}


def state_of(model: Stateful) -> list[object]:
    tensors = model.state_dict(keep_vars=True).items()
    return [model.calls, model.kept, *((name, id(tensor), tensor.tolist()) for name, tensor in tensors)]


@pytest.mark.parametrize(("kind", "named"), DEPENDENT.items(), ids=lambda item: getattr(item, "__name__", ""))
def test_what_an_earlier_call_left_is_named(kind: type[Stateful], named: tuple[str, str | None]) -> None:
    model = kind().eval()
    before = state_of(model)
    report = detlint.audit(model, X)
    result = report.probes["history"]
    attribute, operator = named
    assert not report.ok
    assert (result.verdict, result.kind) == (Verdict.BEYOND_ROUNDING, Cause.STATE)
    assert result.remedy == f"reset {attribute} before each call, or pass it as an argument"
    assert result.first_divergence is not None
    assert operator is None or result.first_divergence.op == operator
    assert [finding.remedy for finding in report.findings if finding.code == "DET702"] == [result.remedy]
    others = {name: item.verdict for name, item in report.probes.items() if name != "history"}
    assert set(others.values()) == {Verdict.BITWISE}, "the state is put back for every other probe"
    assert state_of(model) == before


class ChangesNothing(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.mark.parametrize("kind", [KeepsForOthers, BuildsTable, ChangesNothing])
def test_state_that_does_not_reach_the_result_is_no_finding(kind: type[Stateful]) -> None:
    report = detlint.audit(kind().eval(), X)
    assert report.ok
    assert report.probes["history"].verdict is Verdict.BITWISE
    assert not [spot for spot in report.blind_spots if "put back" in spot]


def test_later_probes_do_not_see_what_the_earlier_calls_wrote() -> None:
    """Digests of a buffer as an earlier call left it must not be taken for those of the buffer itself."""
    report = detlint.audit(AddsToBuffer().eval(), X, probes=("history", "grad", "repeat"))
    assert report.probes["history"].verdict is Verdict.BEYOND_ROUNDING
    assert report.probes["repeat"].verdict is report.probes["grad"].verdict is Verdict.BITWISE


def test_a_model_that_takes_no_other_values_is_called_on_the_same() -> None:
    class Picky(CountsCalls):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x[0, 0] != X[0, 0]:
                raise ValueError("not this")
            return super().forward(x)

    result = detlint.audit(Picky().eval(), X, probes="history").probes["history"]
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.evidence[0] == "compared: after the same call"


def test_train_mode_keeps_statistics_on_purpose() -> None:
    report = detlint.audit(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), X, backward=True)
    history = report.probes["history"]
    assert history.verdict is Verdict.SKIPPED
    assert history.reason == "a call changes 1 in train mode, which is taken as meant"
    assert [spot for spot in report.blind_spots if spot.startswith("the model changed ") and "running_mean" in spot]


def test_what_a_forgotten_eval_leaves_is_named() -> None:
    """Spectral norm takes a step of its power iteration in train mode, and has no layer that another probe knows."""
    torch.manual_seed(0)
    model = spectral_norm(nn.Linear(8, 8))
    history = audited(model, X, "history").probes["history"]
    assert history.verdict is not Verdict.BITWISE
    assert history.remedy == "call model.eval(): then a call leaves parametrizations.weight.0 as it is"
    assert audited(spectral_norm(nn.Linear(8, 8)).eval(), X, "history").probes["history"].verdict is Verdict.BITWISE


class Notes:
    """A plain object that a model keeps."""

    first: torch.Tensor | None = None


class KeepsInObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.notes.first is None:
            self.notes.first = x.mean(0)
        return x - self.notes.first


class KeepsInClass(nn.Module):
    table: ClassVar[dict[str, torch.Tensor]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.table.setdefault("first", x.mean(0))


TABLE: dict[str, torch.Tensor] = {}
STEPS = 0


def from_table(x: torch.Tensor) -> torch.Tensor:
    return TABLE.setdefault("first", x.mean(0))


class KeepsInGlobal(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - from_table(x)


class SetsGlobal(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global STEPS
        STEPS += 1
        return x * STEPS


class DrawsItself(nn.Module):
    def __init__(self, source: object) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.source, torch.Generator):
            return x + torch.rand(8, generator=self.source)
        return x * self.source.random()  # type: ignore[attr-defined,no-any-return]


class WritesArray(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = np.zeros(8, dtype=np.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += 1
        return x + torch.from_numpy(self.total)


def state_outside(model: nn.Module) -> str:
    source = getattr(model, "source", None)
    states = {
        torch.Generator: lambda: source.get_state().tolist(),  # type: ignore[union-attr]
        random.Random: lambda: source.getstate(),  # type: ignore[union-attr]
        np.random.Generator: lambda: source.bit_generator.state,  # type: ignore[union-attr]
    }
    kept = [vars(getattr(model, "notes", Notes())), KeepsInClass.table, TABLE, STEPS, getattr(model, "total", None)]
    return repr([*kept, states[type(source)]() if source is not None else None])


@pytest.mark.parametrize(
    ("model", "named"),
    [
        pytest.param(KeepsInObject(), "notes.first", id="object"),
        pytest.param(KeepsInClass(), "KeepsInClass.table", id="class"),
        pytest.param(KeepsInGlobal(), f"{__name__}.TABLE", id="global"),
        pytest.param(SetsGlobal(), f"{__name__}.STEPS", id="global-set"),
        pytest.param(DrawsItself(torch.Generator().manual_seed(0)), "source", id="torch-generator"),
        pytest.param(DrawsItself(random.Random(0)), "source", id="python-generator"),
        pytest.param(DrawsItself(np.random.default_rng(0)), "source", id="numpy-generator"),
        pytest.param(WritesArray(), "total", id="array"),
    ],
)
def test_what_lies_outside_of_modules_is_asked_too_and_put_back(model: nn.Module, named: str) -> None:
    before = state_outside(model)
    report = audited(model, X, "repeat", "history")
    assert report.probes["repeat"].verdict is Verdict.BITWISE
    history = report.probes["history"]
    assert history.verdict is Verdict.BEYOND_ROUNDING
    assert history.remedy == f"reset {named} before each call, or pass it as an argument"
    assert state_outside(model) == before


def test_what_a_function_closes_over_is_put_back() -> None:
    optimized = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(optimized.parameters())
    losses: list[float] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = optimized(x).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        return loss

    assert audited(step, X, "repeat").ok
    assert not losses
    assert not optimizer.state


@pytest.mark.parametrize("wrapper", [nn.Sequential, nn.DataParallel, AveragedModel])
def test_a_wrapper_in_train_mode_keeps_nothing_from_being_asked(wrapper: Callable[[nn.Module], nn.Module]) -> None:
    report = audited(wrapper(AddsToBuffer().eval()), X, "history")
    assert report.probes["history"].verdict is Verdict.BEYOND_ROUNDING
    assert not [spot for spot in report.blind_spots if "was not traced" in spot]


def test_a_script_module_that_counts_its_calls_is_found() -> None:
    report = detlint.audit(torch.jit.script(AddsToTotal().eval()), X)
    assert report.probes["history"].verdict is Verdict.BEYOND_ROUNDING
    assert report.probes["repeat"].verdict is Verdict.BITWISE


class CountsUnseen(Stateful):
    _calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._calls += 1
        return self.linear(x) * self._calls


class ReturnsBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total.add_(1)


class SwapsWeight(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.linear.weight.data = self.linear.weight.data * 0.5
        return self.linear(x)


@pytest.mark.parametrize(
    ("kind", "name"), [(CountsUnseen, "_calls"), (ReturnsBuffer, "total"), (SwapsWeight, "linear.weight")]
)
def test_state_of_any_kind_is_found(kind: type[Stateful], name: str) -> None:
    result = detlint.audit(kind().eval(), X, probes="history").probes["history"]
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert name in result.remedy


def test_a_call_that_writes_to_its_input_is_named() -> None:
    """Whoever keeps the batch gives the next call other values."""

    class Normalises(nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels.sub_(0.5).div_(0.25)

    report = detlint.audit(Normalises().eval(), {"pixels": X.clone()}, probes=["repeat", "history"])
    assert report.probes["repeat"].verdict is Verdict.BITWISE
    history = report.probes["history"]
    assert (history.verdict, history.kind) == (Verdict.BEYOND_ROUNDING, Cause.STATE)
    assert history.cause == "aten.sub_.Tensor goes by what an earlier call left in the input pixels"
    assert history.remedy == "do not write to the input pixels in place"


def test_an_input_that_gets_what_it_held_is_no_matter() -> None:
    report = detlint.audit(lambda x: x.clamp_(-2, 2).tanh(), X.clone(), probes=["history"])
    assert report.ok
