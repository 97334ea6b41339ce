"""The same code on a GPU: operators whose kernels race there are named, and agree under detlint.deterministic()."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.digests import Digester
from detlint.runtime.report import Verdict

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: kernels that race there cannot run"),
]

N = 1_000_000


def _index() -> torch.Tensor:
    return torch.randint(0, 50, (N,), generator=torch.Generator().manual_seed(0)).cuda()


def _upsample(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.5, mode="bicubic")


@pytest.mark.parametrize(
    ("function", "sample", "backward", "op"),
    [
        pytest.param(
            lambda x: torch.zeros(50, device="cuda").scatter_add(0, _index(), x),
            (N,),
            False,
            "scatter_add",
            id="scatter_add",
        ),
        pytest.param(
            lambda x: torch.zeros(50, device="cuda").index_add(0, _index(), x), (N,), False, "index_add", id="index_add"
        ),
        pytest.param(_upsample, (2, 8, 96, 96), True, "upsample_bicubic2d_backward", id="interpolate-backward"),
    ],
)
def test_racing_kernels_are_named(
    function: Callable[[torch.Tensor], torch.Tensor], sample: tuple[int, ...], backward: bool, op: str
) -> None:
    x = torch.rand(sample, device="cuda", requires_grad=backward)
    report = detlint.audit(function, x, probes=("repeat",), backward=backward, targets=("cuda",), runs=5)
    repeat = report.probes["repeat"]
    assert repeat.verdict is not Verdict.BITWISE
    assert repeat.first_divergence is not None
    assert op in repeat.first_divergence.op


def test_convolutions_of_cudnn_agree_when_deterministic() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3)).cuda()
    x = torch.randn(4, 3, 64, 64, device="cuda")
    with detlint.deterministic():
        report = detlint.audit(model, x, probes=("repeat",), backward=True, targets=("cuda",))
    assert report.probes["repeat"].verdict is Verdict.BITWISE


def test_digests_of_the_device_are_fetched_and_tell_bits_apart() -> None:
    digester = Digester()
    one = torch.randn(1000, device="cuda")
    tickets = [digester.digest(tensor) for tensor in (one, one.clone(), one.flip(0), -one)]
    assert all(ticket is not None and ticket < 0 for ticket in tickets)
    fetched = digester.fetch()
    digests = [fetched[ticket] for ticket in tickets if ticket is not None]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_records_of_both_devices_compare_and_name_the_device() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4)).eval()
    sample = torch.randn(2, 3, 16, 16)
    here, there = detlint.record(model, sample, device="cpu"), detlint.record(model, sample, device="cuda")
    found = detlint.compare(here, there)
    assert not {"inputs", "weights"} & {item.subject for item in found.explanations}
    assert found.explanations[0].subject == "device"
    assert found.first is not None
    assert found.first.event.op == "aten.convolution.default"
    assert detlint.compare(there, detlint.record(model, sample, device="cuda")).models == ("Sequential", "Sequential")
