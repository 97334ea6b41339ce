"""The same model on another device; the machinery is run on the CPU, its differences need a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.flags import Flags, using
from detlint.runtime.guard import Guard
from detlint.runtime.lab import Lab
from detlint.runtime.options import Options
from detlint.runtime.passes import Case, Runner
from detlint.runtime.probes.device import compared_with, explained, other_device
from detlint.runtime.records.comparing import compare_records
from detlint.runtime.records.recording import record
from detlint.runtime.reference import Reference
from detlint.runtime.report import ProbeResult, Verdict
from detlint.runtime.sample import Sample


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 30 * 30, 10)).eval()


def test_without_another_device_the_way_to_compare_machines_is_named() -> None:
    model, x = convolutional(), torch.randn(2, 3, 32, 32)
    if other_device(Case(model, (model,), Sample((x,)))) is not None:
        pytest.skip("there is another device here")
    result = detlint.audit(model, x, probes=["device"]).probes["device"]
    assert result.verdict.value == "skipped"
    assert "detlint compare" in result.reason


@pytest.mark.parametrize("model", [convolutional(), nn.LSTM(16, 8)], ids=["convolutional", "lstm"])
def test_the_same_device_gives_the_same_bits(model: nn.Module) -> None:
    sample = Sample((torch.randn(2, 3, 32, 32) if isinstance(model, nn.Sequential) else torch.randn(3, 2, 16),))
    case = Case(model, (model,), sample)
    with Guard(case.modules) as guard:
        lab = Lab(Runner(guard), case, Options(), lambda: Reference({}), lambda trace: ())
        assert compared_with(lab, "cpu").verdict.value == "bitwise"


def test_the_first_operator_that_departs_is_named() -> None:
    model, x = convolutional(), torch.randn(2, 3, 32, 32)
    one = record(model, x)
    with using(Flags(mkldnn_enabled=False)):
        two = record(model, x)
    comparison = compare_records(one, two, ("a", "b"), "rounding")
    result = explained(ProbeResult("", Verdict.ROUNDING), comparison, "there")
    assert result.first_divergence is not None
    assert result.first_divergence.op == "aten.convolution.default"
    assert result.cause == "aten.convolution.default gives other bits on there"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device to compare with")
def test_cuda_differs_by_rounding_and_the_operator_is_named() -> None:
    result = detlint.audit(convolutional(), torch.randn(2, 3, 32, 32), probes=["device"]).probes["device"]
    assert result.verdict.value in ("bitwise", "rounding")
    if result.verdict.value == "rounding":
        assert result.first_divergence is not None
