"""The probes that change settings: libraries, and precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.flags import Flags, read_flags, using

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


def test_integers_have_no_precision() -> None:
    result = detlint.audit(lambda x: x + 1, torch.arange(4), probes=["precision"]).probes["precision"]
    assert result.verdict.value == "skipped"
