"""What a comparison of records names first is what really differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.report import Verdict

X = torch.arange(32.0).reshape(4, 8) / 8
Batch = tuple[torch.Tensor, torch.Tensor]


def batches() -> list[Batch]:
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 3, 9, 9, generator=draw), torch.randint(0, 4, (8,), generator=draw)) for _ in range(6)]


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 81, 4))


def trained(
    path: Path,
    model: nn.Module,
    data: Sequence[Batch],
    *,
    slower_from: int = 99,
    reduction: str = "mean",
    clip: float | None = None,
) -> Path:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with detlint.Recorder(path, model) as recorder:
        for step, (x, y) in enumerate(data):
            if step == slower_from:
                optimizer.param_groups[0]["lr"] = 0.05
            loss = F.cross_entropy(model(x), y, reduction=reduction)
            loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            recorder.step(model, loss=loss, inputs=(x, y))
            optimizer.zero_grad()
    return path


def subjects(one: object, two: object) -> list[str]:
    return [item.subject for item in detlint.compare(one, two).explanations]  # type: ignore[arg-type]


def test_what_departs_after_rounding_has_its_own_cause(tmp_path: Path) -> None:
    data = batches()
    plain = trained(tmp_path / "a", convolutional(), data)
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        moved = trained(tmp_path / "b", convolutional(), [data[place] for place in (0, 1, 2, 4, 3, 5)])
        slower = trained(tmp_path / "c", convolutional(), data, slower_from=3)
    finally:
        torch._C._set_mkldnn_enabled(before)
    if detlint.compare(plain, slower).results[0].verdict is not Verdict.ROUNDING:
        pytest.skip("oneDNN computes the same here")
    assert subjects(plain, moved)[0] == "inputs"
    assert subjects(plain, slower)[0] == "optimizer"


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        pytest.param({"reduction": "sum"}, "loss", id="loss"),
        pytest.param({"clip": 0.01}, "gradients", id="clipping"),
        pytest.param({"slower_from": 0}, "optimizer", id="learning-rate"),
    ],
)
def test_where_in_a_step_things_go_apart_is_said(tmp_path: Path, change: dict[str, object], subject: str) -> None:
    data = batches()[:2]
    one = trained(tmp_path / "a", convolutional(), data)
    two = trained(tmp_path / "b", convolutional(), data, **change)  # type: ignore[arg-type]
    assert subjects(one, two)[0] == subject


def test_a_batch_that_comes_twice_is_looked_for_near_its_place(tmp_path: Path) -> None:
    data = batches()
    one = trained(tmp_path / "a", convolutional(), [data[place] for place in (0, 1, 2, 0, 1, 2)])
    two = trained(tmp_path / "b", convolutional(), [data[place] for place in (0, 1, 2, 1, 0, 2)])
    assert "this one in step 4 of the second record" in detlint.compare(one, two).explanations[0].says


def test_buffers_are_no_matter_of_the_optimizer(tmp_path: Path) -> None:
    def record(path: Path, momentum: float) -> Path:
        torch.manual_seed(0)
        model = nn.Sequential(nn.BatchNorm1d(8, momentum=momentum), nn.Linear(8, 2))
        with detlint.Recorder(path, model) as recorder:
            loss = model(X).square().mean()
            loss.backward()
            recorder.step(model, loss=loss, inputs=X)
        return path

    assert subjects(record(tmp_path / "a", 0.1), record(tmp_path / "b", 0.2)) == ["mode"]


def test_a_wrapper_around_a_model_is_no_difference(tmp_path: Path) -> None:
    data = batches()[:2]
    one = trained(tmp_path / "a", convolutional(), data)
    two = trained(tmp_path / "b", torch.compile(convolutional(), backend="eager"), data)  # type: ignore[arg-type]
    assert detlint.compare(one, two).verdict is Verdict.BITWISE


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        self.table = torch.full((8,), factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x) * self.table
        return found


def test_a_tensor_that_is_neither_weight_nor_input_is_named() -> None:
    (explanation,) = detlint.compare(detlint.record(Scaled(2.0), X), detlint.record(Scaled(2.5), X)).explanations
    assert explanation.says.endswith("as other, which is neither a weight nor an input of the model")


class Ends(nn.Module):
    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.last = nn.Linear(8, 8), last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.linear(x))
        return found


def test_an_operator_at_the_end_of_one_record_alone_is_named() -> None:
    found = detlint.compare(detlint.record(Ends(nn.Sigmoid()), X), detlint.record(Ends(nn.Identity()), X))
    (departure,) = found.departures
    assert departure.event is not None
    assert departure.event.op == "aten.sigmoid.default"
    assert subjects(detlint.record(Ends(nn.Dropout(0.5)), X), detlint.record(Ends(nn.Dropout(0.5)).eval(), X)) == [
        "mode"
    ]


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x) + torch.randn_like(x)
        return found


def test_noise_is_no_rounding_though_a_float64_run_draws_other_noise() -> None:
    result = detlint.audit(Noisy().eval(), torch.randn(6, 8), probes=["batch"]).probes["batch"]
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert "randn_like" in result.cause


class Thresholds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.empty(50)
        scores[:20] = x.flatten()[:20].sigmoid()
        return (scores > 0.3).nonzero()[:, 0]


def test_memory_that_only_large_positive_numbers_betray() -> None:
    result = detlint.audit(Thresholds(), torch.randn(5, 8), probes=["allocator"]).probes["allocator"]
    assert result.verdict is Verdict.BEYOND_ROUNDING


def test_a_probe_that_was_asked_for_is_skipped_where_nothing_runs() -> None:
    model = nn.Linear(4, 4).eval()
    report = detlint.audit(model, torch.ones(2, 4), probes=["batch"], execute=False, strict=True)
    assert report.failures() == ("batch: asked for by name, but skipped: nothing was executed",)
