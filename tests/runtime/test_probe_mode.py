"""Layers left in train mode, and functions that draw whatever the mode."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.report import Cause, Verdict
from tests.runtime.models import OwnRandom, Race, X, audited, needs_threads, small


def test_dropout_and_batch_norm_left_on_are_named() -> None:
    model = small().train()
    report = detlint.audit(model, X, probes=("repeat", "mode"))
    assert report.probes["repeat"].verdict is Verdict.BITWISE  # the same seed drops the same
    findings = {finding.module: finding for finding in report.probes["mode"].findings}
    assert set(findings) == {"1", "3"}
    assert {finding.code for finding in findings.values()} == {"DET201"}
    assert "drops with p=0.5" in findings["3"].message
    assert "model.eval()" in findings["3"].remedy
    assert not report.ok
    assert report.probes["mode"].kind is Cause.RANDOMNESS


def test_batch_norm_left_on_is_named_where_outputs_agree() -> None:
    report = audited(nn.Sequential(nn.BatchNorm1d(8)).train(), X, "repeat", "mode")
    assert {probe.verdict for probe in report.probes.values()} == {Verdict.BITWISE}
    assert [finding.module for finding in report.probes["mode"].findings] == ["0"]
    assert not report.ok


class Functional(nn.Module):
    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.draw(x)


def test_functions_that_draw_in_a_module_left_in_train_mode_ask_for_eval() -> None:
    (finding,) = audited(Functional(lambda x: F.dropout(x, 0.5)).train(), X, "mode").probes["mode"].findings
    assert (finding.code, finding.remedy) == ("DET201", "call model.eval() before inference")
    assert "draws 32 random numbers" in finding.message


@pytest.mark.parametrize(
    ("draw", "codes"),
    [
        pytest.param(lambda x: F.dropout(x, 0.5), ["DET202"], id="functional-dropout"),
        pytest.param(lambda x: F.dropout(x, 0.5, inplace=True), ["DET202"], id="dropout-in-place"),
        pytest.param(lambda x: F.dropout2d(x[None, :, :, None], 0.5), ["DET202"], id="dropout-of-channels"),
        pytest.param(lambda x: F.alpha_dropout(x, 0.5, training=True), ["DET202"], id="alpha-dropout"),
        pytest.param(lambda x: F.rrelu(-x, training=True), ["DET202"], id="rrelu"),
        pytest.param(
            lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
            ["DET202"],
            id="attention",
        ),
        pytest.param(lambda x: x * torch.bernoulli(x / 10), ["DET206"], id="bernoulli"),
        pytest.param(lambda x: torch.empty_like(x).bernoulli_(0.5).div_(4), ["DET206"], id="bernoulli-in-place"),
        pytest.param(lambda x: torch.multinomial(x + 1, 2), ["DET206"], id="multinomial"),
        pytest.param(
            lambda x: torch.rand(3, generator=torch.Generator().manual_seed(0)), [], id="own-seeded-generator"
        ),
        pytest.param(lambda x: F.batch_norm(x, None, None, training=True), ["DET205"], id="batch-statistics"),
        pytest.param(lambda x: F.dropout(x, 0.5, training=False), [], id="off"),
        pytest.param(lambda x: x.relu(), [], id="plain"),
    ],
)
def test_randomness_of_functions_is_named(draw: Callable[[torch.Tensor], torch.Tensor], codes: list[str]) -> None:
    report = audited(Functional(draw).eval(), X.abs(), "mode")
    assert [finding.code for finding in report.probes["mode"].findings] == codes
    assert report.ok is (not codes)


def test_dropout_that_is_always_on_is_named_without_executing() -> None:
    (finding,) = audited(Functional(lambda x: F.dropout(x, 0.5)).eval(), X, "mode", execute=False).findings
    assert finding.code == "DET202"


class AlwaysDrops(nn.Module):
    """The dense layer of a real model, with dropout that nobody can switch off."""

    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.dense(x), 0.1)


def test_dropout_that_is_always_on_is_named_in_bert() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=100
    )
    model = transformers.BertModel(config)
    layer = model.encoder.layer[1].output
    layer.dense = AlwaysDrops(layer.dense)
    model.eval()
    sample = {"input_ids": torch.arange(12).reshape(2, 6)}
    report = detlint.audit(model, sample, probes=("repeat", "mode"))
    (finding,) = [finding for finding in report.findings if finding.code.startswith("DET2")]
    assert (finding.code, finding.module) == ("DET202", "encoder.layer.1.output.dense")
    assert finding.location.path == __file__


@pytest.mark.parametrize("execute", [True, False])
def test_a_forgotten_eval_fails_the_audit_whether_it_runs_or_not(execute: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    assert not audited(model, X, "mode", execute=execute).ok
    assert audited(model.eval(), X, "mode", execute=execute).ok


def test_dropout_is_named_in_a_model_that_varies_by_itself() -> None:
    """Where runs differ anyway, another seed proves nothing: the draw is named from what ran."""
    model = nn.Sequential(Functional(lambda x: F.dropout(x, 0.5)), OwnRandom()).eval()
    report = audited(model, X, "repeat", "mode")
    assert report.probes["repeat"].verdict is not Verdict.BITWISE
    mode = report.probes["mode"]
    assert (mode.verdict, [finding.code for finding in mode.findings]) == (Verdict.SKIPPED, ["DET202"])
    told = [line for line in report.failures() if line.startswith("mode: ")]
    assert told == [f"mode: {mode.findings[0].message}"]


@needs_threads
def test_a_race_and_dropout_left_on_are_both_named() -> None:
    """All runs have one seed, so dropout is no difference between them: the race is, and `mode` still speaks."""
    report = audited(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), Race()).train(), X, "repeat", "mode")
    event = report.probes["repeat"].first_divergence
    assert event is not None
    assert (event.op, event.module) == ("aten.index_put_.default", "2")
    (finding,) = report.probes["mode"].findings
    assert (finding.code, finding.module, finding.remedy) == ("DET201", "1", "call model.eval() before inference")
    assert [line.partition(":")[0] for line in report.failures()] == ["repeat", "mode"]


@pytest.mark.parametrize(("draw", "source"), [(np.random.rand, "numpy"), (random.random, "random")])
def test_numbers_of_another_library_are_not_put_on_the_operator_that_reads_them(
    draw: Callable[[], float], source: str
) -> None:
    mode = audited(lambda x: x.relu() + draw(), X, "mode").probes["mode"]
    assert mode.verdict is Verdict.BEYOND_ROUNDING
    assert mode.kind is Cause.RANDOMNESS
    wanted = f"aten.add.Tensor gets other values from outside the model's operators: random numbers from {source}"
    assert mode.cause == wanted
    assert mode.repro is None


def seeded(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(1)


def under_a_seed(x: torch.Tensor) -> torch.Tensor:
    with detlint.deterministic(seed=0):
        return x + torch.rand(1)


def seeded_dropout(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return nn.Dropout(0.5).train()(x)


@pytest.mark.filterwarnings("ignore::detlint.runtime.deterministic.DeterminismWarning")
@pytest.mark.parametrize("model", [seeded, under_a_seed, seeded_dropout])
def test_draws_from_a_seed_that_the_program_sets_are_the_same_each_time(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    report = audited(model, X, "repeat", "mode")
    assert report.ok, report.failures()
    (finding,) = report.probes["mode"].findings
    assert finding.message.endswith("from a seed that the program sets itself")


def seeded_too_late(x: torch.Tensor) -> torch.Tensor:
    drawn = torch.rand(1)
    torch.manual_seed(0)
    return x + drawn + torch.rand(1)


def test_a_draw_before_the_program_seeds_depends_on_the_callers_seed() -> None:
    assert audited(seeded_too_late, X, "mode").probes["mode"].verdict is Verdict.BEYOND_ROUNDING


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
@pytest.mark.parametrize(("layers", "codes"), [(1, []), (2, ["DET201"])])
def test_recurrent_layers_drop_between_each_other(layers: int, codes: list[str]) -> None:
    report = audited(nn.LSTM(8, 8, num_layers=layers, dropout=0.5).train(), X, "mode")
    assert [finding.code for finding in report.probes["mode"].findings] == codes


def test_a_layer_that_is_the_whole_model_has_a_name() -> None:
    (finding,) = audited(nn.Dropout(0.5).train(), X, "mode").probes["mode"].findings
    assert finding.message == "the model (Dropout) is in train mode: drops with p=0.5"


def test_train_mode_is_meant_in_a_backward_pass() -> None:
    report = audited(small().train(), X, "repeat", "mode", backward=True)
    assert report.probes["mode"].verdict is Verdict.SKIPPED
    assert report.ok


class StochasticGradient(torch.autograd.Function):
    """Rounds gradients up or down by chance, whatever the mode."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return torch.floor(grad * 16 + torch.rand_like(grad)) / 16


class Quantized(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return StochasticGradient.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def test_gradients_that_are_drawn_in_eval_mode_are_named() -> None:
    torch.manual_seed(0)
    report = audited(nn.Sequential(nn.Linear(8, 8), Quantized()).eval(), X, "repeat", "mode", backward=True)
    mode = report.probes["mode"]
    assert report.probes["repeat"].verdict is Verdict.BITWISE
    assert (mode.verdict, mode.kind) == (Verdict.BEYOND_ROUNDING, Cause.RANDOMNESS)
    event = mode.first_divergence
    assert event is not None
    assert (event.op, event.module, event.phase.value) == ("aten.rand_like.default", "1", "backward")
    (finding,) = mode.findings
    assert (finding.code, finding.passes) == ("DET206", ("backward",))
    assert finding.message.endswith("draws 32 random numbers in the backward pass of a model in eval mode")
