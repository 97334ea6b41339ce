"""What is said about a difference: its cause, its place and the remedy are those of this difference and no other."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.report import Cause, Verdict
from tests.runtime.models import X, audited, needs_threads


class AddsWithGradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        if torch.is_grad_enabled():
            y = y + 0.1  # here
        return y


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(text))


def test_looking_at_the_output_is_no_operator_of_the_model() -> None:
    report = audited(AddsWithGradients().eval(), X, "grad")
    assert "aten.detach.default" not in [event.op for event in report.events]
    assert "nothing against aten.add.Tensor" in report.probes["grad"].cause
    (finding,) = (finding for finding in report.findings if finding.code == "DET702")
    assert (finding.op, finding.location.line) == ("aten.add.Tensor", line_of("# here"))


class TakesTurns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turns = count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() if next(self.turns) % 2 else x.cos()


def test_where_runs_fork_both_places_are_shown_and_the_remedy_says_where_to_look() -> None:
    text = str(audited(TakesTurns(), X, "repeat"))
    assert f"the other run goes on with aten.sin.default at {__file__}:{line_of('else x.cos()')}" in text
    assert "help: look for what is not the same in each run" in text


class DropsLayers(nn.Module):
    """Stochastic depth by Python's generator, in eval mode too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if random.random() < 0.5 else x.exp()


def test_a_generator_that_decides_what_runs_is_named_and_eval_is_not_advised() -> None:
    result = audited(DropsLayers().eval(), X, "mode").probes["mode"]
    assert result.kind is Cause.RANDOMNESS
    assert result.cause.startswith("numbers drawn from random decide which operators run (another seed)")
    assert [finding.remedy for finding in result.findings] == ["draw from a generator that is seeded before each run"]


def test_the_help_is_that_of_the_operator_shown() -> None:
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = F.dropout(x, 0.5)
        return torch.multinomial(h.abs() + 1, 1), h

    text = str(audited(twice, X, "mode"))
    shown = text[text.index("first divergence") : text.index("findings")]
    assert "help: pass training=self.training" in shown


class HidesLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Dropout(0.5), nn.BatchNorm1d(8)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_eval_is_not_advised_where_it_reaches_nothing() -> None:
    findings = audited(HidesLayers().eval(), X, "mode").probes["mode"].findings
    assert [finding.code for finding in findings] == ["DET201", "DET205"]
    assert {finding.remedy.partition(":")[0] for finding in findings} == {"model.eval() does not reach it"}


def test_unwritten_memory_is_to_be_written_whatever_operator_reads_it() -> None:
    turns = iter(range(1, 100))

    def pooled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(6, 8)
        out.numpy()[:] = next(turns)  # what the allocator would hand out
        where = torch.tensor([0, 0, 1, 2])[:, None].expand_as(x)
        return out.scatter_reduce_(0, where, x, "mean", include_self=False)

    report = audited(pooled, torch.randn(4, 8), "repeat")
    assert report.probes["repeat"].kind is Cause.UNINITIALIZED
    (finding,) = (finding for finding in report.findings if finding.code == "DET701")
    assert finding.remedy == "write to memory from torch.empty before it is read, or use torch.zeros"


def test_a_derivative_is_not_predicted_of_what_is_one() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    where = torch.zeros(4, 8, dtype=torch.long)
    report = detlint.audit(lambda x: x.scatter_reduce(0, where, x * 2, "amax"), x, backward=True, probes=["repeat"])
    assert "aten.gather.default" in [event.op for event in report.events]
    assert not [finding for finding in report.findings if "the backward of gather" in finding.message]


class AppendsFromThreads(nn.Module):
    """The order in which threads come to their results is turned around in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: list[torch.Tensor] = []
        order = range(4) if next(self.turns) % 2 else range(3, -1, -1)
        for place in order:
            thread = threading.Thread(target=lambda place=place: rows.append(x[place].exp()))  # type: ignore[misc]
            thread.start()
            thread.join()
        return torch.stack(rows)


def test_threads_are_named_where_their_results_come_in_another_order() -> None:
    result = audited(AppendsFromThreads(), X, "repeat").probes["repeat"]
    assert "the order in which the threads finish that were started (4)" in result.cause


class SetsThreads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.set_num_threads(1)
        return x.exp()


@needs_threads
def test_what_a_model_sets_in_its_float64_run_is_put_back() -> None:
    threads = torch.get_num_threads()
    report = audited(nn.Sequential(nn.Linear(8, 8), SetsThreads()), torch.randn(4, 8), "layout", "threads")
    assert report.probes["threads"].verdict is not Verdict.SKIPPED
    assert torch.get_num_threads() == threads


class Coarse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.two(self.one(x).relu())
        return (h * 1000).round().remainder(2)  # the guilty one


def test_less_precision_names_what_does_not_bear_it_and_not_the_first_cast() -> None:
    torch.manual_seed(0)
    result = audited(Coarse().eval(), torch.randn(4, 8), "precision").probes["precision"]
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert result.first_divergence.source is not None
    assert result.first_divergence.source.line == line_of("# the guilty one")


def test_the_dimension_that_was_taken_for_the_batch_is_told_where_another_one_may_be_meant() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)  # batch_first was forgotten

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.attention(x, x, x)[0]
            return found

    report = audited(Attention().eval(), torch.randn(4, 5, 8), "batch")
    assert [spot for spot in report.blind_spots if "along dimension 0 results depend on each other" in spot]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fast_path_of_an_encoder_with_padding_can_be_asked() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.encoder(x, src_key_padding_mask=mask)
            return found

    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[0, 4:] = mask[2, 5:] = True
    report = audited(Encoder().eval(), (torch.randn(3, 6, 16), mask), "batch")
    assert report.probes["batch"].verdict is not Verdict.ERROR


class GoesByExport(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() if torch.compiler.is_exporting() else x.cos()


def test_an_export_that_is_another_program_is_told_from_other_kernels() -> None:
    pytest.importorskip("onnxruntime")
    result = audited(GoesByExport().eval(), X, "onnx").probes["onnx"]
    assert result.cause == (
        "the exported program computes something else than the model: it gives other values in torch too"
    )


class InOrder(nn.Module):
    """Runs its functions in the order of what another model may have as a set."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = getattr(torch, name)(x)
        return x


def test_the_order_of_sets_is_suspected_where_other_operators_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    one, two = (detlint.record(InOrder(order), X) for order in (("sin", "cos"), ("cos", "sin")))
    found = detlint.compare(one, two)
    (order,) = (item for item in found.explanations if item.subject == "variables.PYTHONHASHSEED")
    assert "sets of text may have another order" in order.says
    assert not [item for item in found.other_settings if item.subject == order.subject]
    other = detlint.compare(detlint.record(nn.Tanh(), X), detlint.record(nn.Sigmoid(), X))
    assert not [item for item in other.explanations if item.subject == order.subject]
