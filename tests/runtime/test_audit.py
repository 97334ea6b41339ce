"""Audits from end to end: models that differ in one known way, and models that do not."""

from __future__ import annotations

import gc
import json
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.errors import AuditError, UsageError
from detlint.findings import Severity
from detlint.runtime import digests
from detlint.runtime.report import Cause, Verdict

X = torch.arange(32.0).reshape(4, 8) / 7


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def audited(model: Callable[..., object], sample: object = X, *probes: str, **options: Any) -> detlint.AuditReport:
    return detlint.audit(model, sample, probes=probes or ("repeat",), **options)


def test_a_plain_model_passes_every_probe() -> None:
    report = detlint.audit(small().eval(), X)
    assert report.ok, report.failures()
    assert {probe.verdict for probe in report.probes.values()} <= {Verdict.BITWISE, Verdict.ROUNDING}
    assert {finding.severity for finding in report.findings} <= {Severity.INFO}
    detlint.assert_deterministic(small().eval(), X)


class Race(nn.Module):
    """Adds a million floats into fifty places, from several threads."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("where", torch.randint(0, 50, (1_000_000,), generator=generator))
        self.register_buffer("what", torch.rand(1_000_000, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.zeros(50)
        rows.index_put_((self.where,), self.what, accumulate=True)
        return x + rows.sum() / 1e6


class GatherRace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(50))
        self.register_buffer("where", Race().where)
        self.register_buffer("what", Race().what)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.rows[self.where] * self.what).sum()


needs_threads = pytest.mark.skipif(torch.get_num_threads() < 2, reason="races need two CPU threads")


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
    assert "index_put_" in open(__file__).readlines()[event.source.line - 1]  # noqa: PTH123, SIM115
    assert repeat.divergence is not None
    assert repeat.divergence.confirmed
    assert repeat.divergence.at_operator is not None
    assert 0 < repeat.divergence.at_operator.max_abs < 1
    assert not report.ok
    (finding,) = [finding for finding in report.findings if finding.code == "DET701"]
    assert (finding.op, finding.module, finding.location.path) == (event.op, "1", __file__)
    assert finding.remedy
    with pytest.raises(detlint.NotDeterministic, match="index_put_"):
        report.raise_if_failed()


@needs_threads
def test_a_race_in_the_backward_pass_is_named_at_its_forward_call() -> None:
    model = nn.Sequential(nn.Linear(8, 8), GatherRace())
    assert audited(model).probes["repeat"].verdict is Verdict.BITWISE
    event = audited(model, backward=True).probes["repeat"].first_divergence
    assert event is not None
    assert (event.name, event.module, event.phase.value) == ("aten.index_put", "1", "backward")
    assert event.source is not None
    assert "self.rows[self.where]" in open(__file__).readlines()[event.source.line - 1]  # noqa: PTH123, SIM115


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
    generator = torch.Generator().manual_seed(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(8, generator=OwnGenerator.generator)


class OwnRandom(nn.Module):
    source = random.Random(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([OwnRandom.source.random()])


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


def test_an_unwritten_output_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(range(1, 100))

    def model(x: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(4)
        fresh.numpy()[:] = next(turns)
        return fresh

    repeat = audited(model).probes["repeat"]
    assert repeat.kind is Cause.UNINITIALIZED
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.op == "aten.empty.memory_format"


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


class AlwaysDrops(nn.Module):
    """The dense layer of a real model, with dropout that nobody can switch off."""

    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.dense(x), 0.1)


def test_dropout_that_is_always_on_is_named_without_executing() -> None:
    (finding,) = audited(Functional(lambda x: F.dropout(x, 0.5)).eval(), X, "mode", execute=False).findings
    assert finding.code == "DET202"


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


def test_nothing_of_an_audit_is_left_when_its_report_is_dropped() -> None:
    def tensors() -> Counter[str]:
        gc.collect()
        return Counter(type(item).__name__ for item in gc.get_objects() if issubclass(type(item), torch.Tensor))

    model = small()
    audited(model, X, "repeat", "mode", backward=True)  # torch keeps the shapes of the graph it captured last
    before = tensors()
    report = audited(model, X, "repeat", "mode", backward=True)
    assert report.graph is not None
    kept = weakref.ref(report), weakref.ref(report.graph), weakref.ref(model)
    del report
    assert tensors() == before
    del model
    gc.collect()
    assert [reference() for reference in kept] == [None, None, None]


def test_train_mode_is_meant_in_a_backward_pass() -> None:
    report = audited(small().train(), X, "repeat", "mode", backward=True)
    assert report.probes["mode"].verdict is Verdict.SKIPPED
    assert report.ok


class GoesByGrad(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.001 if torch.is_grad_enabled() else x


class GoesByThreads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.get_num_threads()


class GoesByStrides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,)).exp()


@pytest.mark.parametrize(
    ("probe", "model", "passes"),
    [
        pytest.param("grad", GoesByGrad(), False, id="grad-fails"),
        pytest.param("grad", nn.Linear(8, 8), True, id="grad-passes"),
        pytest.param("threads", GoesByThreads(), False, id="threads-fails", marks=needs_threads),
        pytest.param("threads", nn.ReLU(), True, id="threads-passes", marks=needs_threads),
        pytest.param("layout", GoesByStrides(), False, id="layout-fails"),
        pytest.param("layout", nn.Tanh(), True, id="layout-passes"),
        pytest.param("repeat", nn.Linear(8, 8), True, id="repeat-passes"),
        pytest.param("mode", nn.Dropout(0.5), False, id="mode-fails"),
        pytest.param("mode", nn.Dropout(0.5).eval(), True, id="mode-passes"),
    ],
)
def test_each_probe_fails_one_model_and_passes_another(probe: str, model: nn.Module, passes: bool) -> None:
    report = audited(model, X, probe)
    result = report.probes[probe]
    assert report.ok is passes, report.failures()
    assert (result.verdict is Verdict.BITWISE) is passes, result
    if not passes:
        assert result.first_divergence is not None
        assert result.cause
        assert result.max_abs > 0


@needs_threads
def test_sums_split_by_threads_are_rounding() -> None:
    torch.manual_seed(0)
    big = torch.randn(2_000_003)
    report = audited(lambda x: x.sum().expand(2), big, "threads")
    result = report.probes["threads"]
    assert result.verdict in (Verdict.ROUNDING, Verdict.BITWISE)  # a sum may come out equal
    assert report.ok
    if result.verdict is Verdict.ROUNDING:
        assert result.first_divergence is not None
        assert result.first_divergence.op == "aten.sum.default"
        assert not audited(lambda x: x.sum().expand(2), big, "threads", allow="bitwise").ok


@dataclass
class Result:
    logits: torch.Tensor
    extra: dict[str, list[torch.Tensor]]


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor | None


@pytest.mark.parametrize(
    ("output", "names"),
    [
        pytest.param(lambda x: x, ["output"], id="tensor"),
        pytest.param(lambda x: (x, [x, 1]), ["[0]", "[1][0]"], id="nested"),
        pytest.param(lambda x: {"a": x, "b": {"c": x}}, ["a", "b.c"], id="dict"),
        pytest.param(lambda x: Result(x, {"h": [x]}), ["logits", "extra.h[0]"], id="dataclass"),
        pytest.param(lambda x: Pair(x, None), ["first"], id="named-tuple"),
    ],
)
def test_outputs_may_be_any_tree(output: Callable[[torch.Tensor], object], names: list[str]) -> None:
    turns = iter(range(100))
    report = audited(lambda x: output(x + next(turns)))
    assert [difference.name for difference in report.probes["repeat"].outputs] == names


def test_outputs_of_transformers_are_read() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")

    turns = iter(range(100))
    report = audited(lambda x: outputs.BaseModelOutput(last_hidden_state=x + next(turns)))
    assert [difference.name for difference in report.probes["repeat"].outputs] == ["last_hidden_state"]


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(X, id="tensor"),
        pytest.param((X,), id="tuple"),
        pytest.param({"input": X}, id="dict"),
        pytest.param(detlint.Sample((), {"input": X}), id="sample"),
    ],
)
def test_samples_may_be_given_in_four_ways(sample: object) -> None:
    assert audited(nn.Linear(8, 8), sample).ok


def numbers(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the third\nline is not shown")


@pytest.mark.parametrize(
    ("model", "sample", "message"),
    [
        pytest.param(nn.Linear(8, 8), [X], "expected a tensor, a tuple", id="list-as-sample"),
        pytest.param(nn.Linear(8, 8), torch.ones(3, 5), "model raised RuntimeError: mat1", id="wrong-shape"),
        pytest.param(nn.Linear(8, 8), (X, X), "the model raised TypeError", id="too-many-arguments"),
        pytest.param(nn.Linear(8, 8), {"inputs": X}, "the model raised TypeError", id="wrong-name"),
        pytest.param(lambda x: None, X, "returned None", id="none"),
        pytest.param(lambda x: "text", X, "holds no tensors", id="no-tensors"),
        pytest.param(numbers, X, "returned a generator", id="generator"),
        pytest.param(nn.Linear(8, 8), X.to("meta"), "is on meta, but the model is on cpu", id="another-device"),
        pytest.param(nn.Linear(8, 8, device="meta"), X, "on the meta device: pass execute=False", id="no-values"),
        pytest.param(Raises(), X, "ValueError: the third at ", id="raises"),
        pytest.param(3, X, "expected a module or a function, got int", id="no-model"),
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
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detlint.audit(nn.Linear(8, 8), X, **options)


def test_backward_needs_something_to_train() -> None:
    with pytest.raises(AuditError, match="nothing that requires gradients"):
        audited(lambda x: x * 2, X, backward=True)


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


def test_a_loss_may_be_given_and_is_found_in_outputs() -> None:
    model = nn.Linear(8, 8)
    used: list[bool] = []
    audited(model, X, backward=True, loss=lambda output: used.append(True) or output.mean())
    assert used
    assert audited(lambda x: {"loss": model(x).mean(), "logits": model(x)}, X, backward=True).ok


def test_blind_spots_are_said() -> None:
    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=time.sleep, args=(0.0,))
            thread.start()
            thread.join()
            random.random()
            return self.used(x)

    spots = " | ".join(audited(Blind()).blind_spots)
    for part in ("threads were started (1)", "never called: unused", "drawn from random", "probes not asked for: "):
        assert part in spots


@needs_threads
def test_models_that_cannot_run_in_float64_are_judged_by_a_bound() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise TypeError("float32 only")
        return x * (1 + 1e-7 * torch.get_num_threads())

    report = audited(model, X, "threads")
    assert report.probes["threads"].verdict is Verdict.ROUNDING
    assert any("float32 only" in spot for spot in report.blind_spots)


def test_a_probe_that_fails_is_reported_and_the_others_go_on() -> None:
    class OneThreadOnly(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.is_grad_enabled():
                raise RuntimeError("not with gradients")
            return x + 1

    report = audited(OneThreadOnly(), X, "repeat", "grad", "layout")
    assert report.probes["grad"].verdict is Verdict.ERROR
    assert "not with gradients" in report.probes["grad"].reason
    assert report.probes["layout"].verdict is Verdict.BITWISE
    assert not report.ok


def test_the_report_is_json() -> None:
    report = detlint.audit(small().train(), X)
    record = json.loads(report.to_json())
    assert record["ok"] is False
    assert record["probes"]["repeat"]["verdict"] == "bitwise"
    assert len(record["events"]) == len(report.events)


def test_audits_are_deterministic_themselves() -> None:
    def record() -> str:
        findings = detlint.audit(small().train(), X).findings
        return repr(findings)

    assert record() == record()


def test_hazards_fail_only_under_strict() -> None:
    class Hazard(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            where = torch.arange(100_000) // 3  # whole numbers: every order of adding gives the same
            return torch.zeros(50_000).index_put_((where,), torch.ones(100_000), accumulate=True)

    assert audited(Hazard(), X, targets=("cpu",)).ok
    assert not audited(Hazard(), X, targets=("cpu",), strict=True).ok


def test_the_threads_that_digest_are_no_blind_spot() -> None:
    digests._threads.cache_clear()  # so that they are started during the audit
    report = detlint.audit(nn.ReLU(), torch.randn(3_000_000), probes=("repeat",))
    assert not [spot for spot in report.blind_spots if spot.startswith("threads were started")]
