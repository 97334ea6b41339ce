"""The probes that change settings: gradients, threads, layout, libraries, and precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.flags import Flags, read_flags, using
from detlint.runtime.report import Verdict
from tests.runtime.models import X, audited, exact_linear, needs_threads

CPU_ONLY = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 8, 3)).eval()


@CPU_ONLY
def test_onednn_is_named_where_it_decides() -> None:
    model, x = convolutional(), torch.randn(2, 3, 32, 32)
    with using(Flags(mkldnn_enabled=False)):
        without = model(x)
    assert not torch.equal(model(x), without)  # independent of the probe
    result = detlint.audit(model, x, probes=["backends"]).probes["backends"]
    assert result.verdict.value == "rounding"
    assert result.change == "without oneDNN"
    assert result.first_divergence is not None
    assert result.first_divergence.module == "0"
    assert result.max_abs == (model(x).double() - without.double()).abs().max().item()


@CPU_ONLY
def test_settings_are_put_back() -> None:
    before = read_flags()
    detlint.audit(convolutional(), torch.randn(2, 3, 32, 32), probes=["backends", "precision"])
    assert read_flags() == before


def test_attention_without_its_fused_kernel() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)

    result = detlint.audit(attend, torch.randn(2, 4, 64, 32), probes=["backends"]).probes["backends"]
    assert result.verdict.value == "rounding"
    assert result.change == "without flash attention"


def test_autocast_differs_by_its_own_precision_only() -> None:
    model, x = convolutional(), torch.randn(2, 3, 32, 32)
    result = detlint.audit(model, x, probes=["precision"]).probes["precision"]
    assert result.verdict.value == "rounding"
    assert "autocast to bfloat16 on cpu" in result.change
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        low = model(x)
    with torch.no_grad():
        assert result.max_abs == pytest.approx(float((model(x) - low.float()).abs().max()))


def test_what_falls_apart_in_less_precision_is_no_rounding() -> None:
    def cancelling(x: torch.Tensor) -> torch.Tensor:
        big = (x @ x.T) * 1e4
        return (big + 1.0 - big) @ x

    result = detlint.audit(cancelling, torch.randn(16, 16), probes=["precision"]).probes["precision"]
    assert result.verdict.value == "beyond-rounding"


def test_under_autocast_the_question_is_turned_around() -> None:
    model = nn.Linear(64, 64).eval()
    with torch.autocast("cpu", torch.bfloat16):
        result = detlint.audit(model, torch.randn(4, 64), probes=["precision"]).probes["precision"]
    assert any("autocast off on cpu" in line for line in result.evidence)


class OnePassVariance(nn.Module):
    """The difference of two great means: of float32 hardly a digit is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x * x).mean(1, keepdim=True) - mean * mean
        return (x - mean) / (variance.clamp(min=0) + 1e-2).sqrt()


class Positions(nn.Module):
    """Positions in the type of the activations: bfloat16 has none between 256 and 258."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.arange(x.shape[-1], dtype=x.dtype).cos()


@pytest.mark.parametrize(
    ("layer", "sample", "op"),
    [
        (OnePassVariance(), 1e5 + torch.linspace(-20, 20, 256).reshape(2, 128), "aten.sub.Tensor"),
        (Positions().to(torch.bfloat16), torch.ones(2, 400, dtype=torch.bfloat16), "aten.cos.default"),
    ],
)
def test_a_type_too_coarse_for_what_is_computed_is_told_by_float64(
    layer: nn.Module, sample: torch.Tensor, op: str
) -> None:
    model = nn.Sequential(nn.Identity(), layer).eval()
    exact = model(sample.double())
    assert (model(sample) - exact).abs().max() > exact.abs().max() / 4  # independent of the probe
    result = audited(model, sample, "precision").probes["precision"]
    assert (result.verdict, result.change) == (Verdict.BEYOND_ROUNDING, "float64")
    assert result.first_divergence is not None
    assert (result.first_divergence.op, result.first_divergence.module) == (op, "1")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_type_that_is_fine_enough_is_not_blamed(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())]
    model = nn.Sequential(*layers).to(dtype).eval()
    assert audited(model, torch.randn(8, 32, dtype=dtype), "precision").ok


def test_a_model_that_draws_is_not_asked_in_float64() -> None:
    """There it draws other numbers."""
    result = audited(lambda x: x.relu() + torch.rand_like(x), X, "precision").probes["precision"]
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING)


def test_integers_have_no_precision() -> None:
    result = detlint.audit(lambda x: x + 1, torch.arange(4), probes=["precision"]).probes["precision"]
    assert result.verdict.value == "skipped"


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
        assert result.divergence is not None
        assert (result.divergence.event or result.divergence.other) is not None
        assert result.cause
        assert result.max_abs > 0


class Table(nn.Module):
    """Holds no parameter, and is asked for by number."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.ones(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rows[x]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("model", "sample", "reason"),
    [
        pytest.param(
            lambda x: torch.view_as_complex(x).abs(),
            lambda: torch.ones(4, 2),
            "with gaps: not tried, the model raises RuntimeError: Tensor must have a last dimension with stride 1",
            id="refused",
        ),
        pytest.param(Table(), lambda: torch.tensor([1, 2]), "no floating tensor with elements to move", id="buffers"),
        pytest.param(
            lambda x: x * 2,
            lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided),
            "no floating tensor with elements to move",
            id="nested",
        ),
    ],
)
def test_what_takes_no_other_layout_is_not_judged_by_it(
    model: Callable[..., object], sample: Callable[[], torch.Tensor], reason: str
) -> None:
    report = audited(model, sample(), "layout")
    assert report.probes["layout"].verdict is Verdict.SKIPPED
    assert reason in report.probes["layout"].reason
    assert report.ok


def test_weights_that_were_made_for_inference_only_stay_where_they_are() -> None:
    with torch.inference_mode():
        model = exact_linear(8)
    result = audited(model, torch.arange(-16.0, 16.0).reshape(4, 8), "layout").probes["layout"]
    assert (result.verdict, result.evidence[0]) == (Verdict.BITWISE, "compared: with gaps, at an odd address")


def without_autocast(x: torch.Tensor) -> torch.Tensor:
    if torch.is_autocast_enabled("cpu"):
        raise ValueError("not under autocast")
    return x @ x.T


def test_a_change_that_is_refused_loses_no_other() -> None:
    result = audited(without_autocast, X, "precision").probes["precision"]
    assert result.evidence[:2] == (
        "compared: float32 products at medium precision",
        "autocast to bfloat16 on cpu: not tried, the model raises ValueError: not under autocast",
    )
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING)


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


@needs_threads
def test_models_that_cannot_run_in_float64_are_judged_by_a_bound() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise TypeError("float32 only")
        return x * (1 + 1e-7 * torch.get_num_threads())

    report = audited(model, X, "threads")
    assert report.probes["threads"].verdict is Verdict.ROUNDING
    assert any("float32 only" in spot for spot in report.blind_spots)


class AnotherNormWithoutOnednn(nn.Module):
    """Takes another formula where oneDNN is off, after a convolution that only rounds otherwise there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = convolutional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return (x * (1.0 if read_flags().mkldnn_enabled else 1.5)).tanh()


@CPU_ONLY
def test_rounding_before_the_fault_is_passed_over() -> None:
    model, x = AnotherNormWithoutOnednn(), torch.randn(2, 3, 32, 32)
    plain = model.conv(x)
    with using(Flags(mkldnn_enabled=False)):
        assert not torch.equal(model.conv(x), plain)  # independent of the probe
    result = detlint.audit(model, x, probes=["backends"]).probes["backends"]
    assert result.verdict.value == "beyond-rounding"
    assert result.first_divergence is not None
    assert result.first_divergence.name == "aten.mul"
