"""The same again: what varies by itself is named with its cause, and nothing else is."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.report import Cause, Verdict
from tests.runtime import models
from tests.runtime.models import OwnRandom, Race, X, audited, needs_threads, unseen_numbers


@needs_threads
def test_a_race_in_the_forward_pass_is_named() -> None:
    model = nn.Sequential(nn.Linear(8, 8), Race(), nn.Linear(8, 2))
    report = audited(model)
    repeat = report.probes["repeat"]
    assert repeat.verdict is Verdict.ROUNDING
    assert repeat.kind is Cause.RUN_TO_RUN
    event = repeat.first_divergence
    assert event is not None
    assert (event.op, event.module, event.phase.value) == ("aten.index_put_.default", "1", "forward")
    assert event.source is not None
    assert "index_put_" in linecache.getline(models.__file__, event.source.line)
    assert repeat.divergence is not None
    assert repeat.divergence.confirmed
    assert repeat.divergence.at_operator is not None
    assert 0 < repeat.divergence.at_operator.max_abs < 1
    assert not report.ok
    (finding,) = [finding for finding in report.findings if finding.code == "DET701"]
    assert (finding.op, finding.module, finding.location.path) == (event.op, "1", models.__file__)
    assert finding.remedy
    with pytest.raises(detlint.NotDeterministic, match="index_put_"):
        report.raise_if_failed()


class GatherRace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(50))
        self.register_buffer("where", Race().where)
        self.register_buffer("what", Race().what)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.rows[self.where] * self.what).sum()


@needs_threads
def test_a_race_in_the_backward_pass_is_named_at_its_forward_call() -> None:
    model = nn.Sequential(nn.Linear(8, 8), GatherRace())
    assert audited(model).probes["repeat"].verdict is Verdict.BITWISE
    event = audited(model, backward=True).probes["repeat"].first_divergence
    assert event is not None
    assert (event.name, event.module, event.phase.value) == ("aten.index_put", "1", "backward")
    assert event.source is not None
    assert "self.rows[self.where]" in linecache.getline(__file__, event.source.line)


@needs_threads
def test_a_race_that_does_not_reach_the_output_is_still_named() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.race = Race()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (self.race(x).sum() > 0)

    repeat = audited(Hidden()).probes["repeat"]
    assert repeat.verdict is Verdict.ROUNDING
    assert repeat.outputs == ()
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.module == "race"


@needs_threads
def test_other_probes_are_not_blamed_for_what_varies_by_itself() -> None:
    report = audited(Race(), X, "threads", "repeat", "grad")
    assert [report.probes[name].verdict for name in ("threads", "grad")] == [Verdict.SKIPPED] * 2
    assert "see repeat" in report.probes["threads"].reason


class Counts(nn.Module):
    """Reads a number that grows outside of what is put back."""

    steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counts.steps += 1
        return x + float(Counts.steps)


class OwnGenerator(nn.Module):
    """Draws from a generator that is seeded anew each time, by a seed from nowhere."""

    seeds = iter(range(1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(8, generator=torch.Generator().manual_seed(next(OwnGenerator.seeds)))


class Branches(nn.Module):
    turns = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Branches.turns += 1
        return x.sin() if Branches.turns % 2 else x.cos()


class ReadsFresh(nn.Module):
    """Reads memory that was allocated, filled differently behind the tracer, and never written to."""

    turn = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(8)
        ReadsFresh.turn += 1
        fresh.numpy()[:] = ReadsFresh.turn
        return x * fresh


@pytest.mark.parametrize(
    ("model", "cause", "op"),
    [
        pytest.param(Counts(), Cause.STATE, "aten.add.Tensor", id="state"),
        pytest.param(OwnRandom(), Cause.STATE, "aten.add.Tensor", id="another-library"),
        pytest.param(OwnGenerator(), Cause.RANDOMNESS, "aten.rand.generator", id="randomness"),
        pytest.param(Branches(), Cause.UNKNOWN, "aten.sin.default", id="another-sequence"),
        pytest.param(ReadsFresh(), Cause.UNINITIALIZED, "aten.mul.Tensor", id="uninitialised"),
    ],
)
def test_causes_are_kept_apart(model: nn.Module, cause: Cause, op: str) -> None:
    report = audited(model)
    repeat = report.probes["repeat"]
    assert repeat.verdict is Verdict.BEYOND_ROUNDING
    assert repeat.kind is cause, repeat.cause
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.op in (op, "aten.lift_fresh.default", "aten.cos.default")


def test_an_unwritten_output_is_named() -> None:
    turns = iter(range(1, 100))

    def model(x: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(4)
        fresh.numpy()[:] = next(turns)
        return fresh

    repeat = audited(model).probes["repeat"]
    assert repeat.kind is Cause.UNINITIALIZED
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.op == "aten.empty.memory_format"


def test_memory_that_is_filled_piece_by_piece_is_no_divergence() -> None:
    """Views of it hold garbage until they are written, and garbage differs from run to run."""
    turns = iter(range(1, 100))

    class Pieces(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = torch.empty(4, 8)
            out.numpy()[:] = next(turns)  # what the allocator would hand out
            out[:2] = x[:2]
            out[2:].copy_(x[2:])
            return out + 1

    repeat = audited(Pieces()).probes["repeat"]
    assert repeat.verdict is Verdict.BITWISE
    assert repeat.first_divergence is None


def test_gradients_are_compared() -> None:
    turns = iter(range(1, 100))

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient * float(next(turns))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Scaled.apply(self.linear(x))

    repeat = audited(Model(), X, backward=True).probes["repeat"]
    assert {item.name for item in repeat.outputs} == {"gradient of linear.weight", "gradient of linear.bias"}
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.phase.value == "backward"


class ReturnsItsMemory(nn.Module):
    """Returns tensors that belong to the model: they are put back, or overwritten by the next run."""

    source = unseen_numbers(0)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("buffer", torch.zeros(4))
        self.attribute = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory: torch.Tensor = getattr(self, self.kind)
        memory.fill_(next(self.source))
        return memory[:2]


@pytest.mark.parametrize("kind", ["buffer", "attribute"])
def test_outputs_that_lie_in_the_models_memory_are_compared_as_they_were_returned(kind: str) -> None:
    result = audited(ReturnsItsMemory(kind)).probes["repeat"]
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.max_abs


def test_numbers_drawn_inside_an_operator_are_no_rounding() -> None:
    """A float64 run draws numbers of its own too, to which every side is equally near."""

    @torch.library.custom_op("detlint_test::drawn", mutates_args=(), schema="(Tensor x) -> Tensor")
    def drawn(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.random.default_rng().random(x.shape)).to(x.dtype)

    report = audited(lambda x: drawn(x) + x)
    assert report.probes["repeat"].verdict is Verdict.BEYOND_ROUNDING
    assert "other values in each float64 run" in " ".join(report.blind_spots)


@pytest.mark.parametrize("seed", [6, 10])
def test_runs_of_other_operators_are_no_rounding(seed: int) -> None:
    """Whatever number of steps the float64 run happens to take."""
    source = unseen_numbers(seed)

    def steps(x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(next(source) * 3)):
            x = x + 1
        return x

    repeat = audited(steps, X, runs=8).probes["repeat"]
    assert repeat.verdict is Verdict.BEYOND_ROUNDING


def test_what_another_library_wrote_is_not_laid_on_the_operator_that_reads_it() -> None:
    source = unseen_numbers(1)

    def written(x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        x.numpy()[0] = next(source)
        return x + 1

    repeat = audited(written).probes["repeat"]
    assert (repeat.kind, repeat.verdict) == (Cause.UNKNOWN, Verdict.BEYOND_ROUNDING)
    assert repeat.cause == "the memory that aten.add.Tensor reads was written to where the tracer does not see it"


def test_draws_are_named_in_a_model_that_raises_when_it_runs_again() -> None:
    turns = iter(range(1))
    report = audited(lambda x: x + torch.rand(1) + next(turns), X, "repeat", "mode")
    assert [probe.verdict for probe in report.probes.values()] == [Verdict.ERROR, Verdict.SKIPPED]
    assert [finding.code for finding in report.probes["mode"].findings] == ["DET206"]


def test_a_model_that_raises_when_it_runs_again_is_not_said_to_vary() -> None:
    turns = iter(range(2))

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + next(turns) * 0

    report = detlint.audit(twice, X)
    assert report.probes["repeat"].verdict is Verdict.ERROR
    (told,) = [spot for spot in report.blind_spots if "skipped" in spot]
    assert told == (
        "probes mode, history, grad, layout, threads skipped: the model raised when it ran again: see repeat"
    )
