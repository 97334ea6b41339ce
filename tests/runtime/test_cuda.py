"""The same code on a GPU: operators that race there are named where they ran, and deterministic() removes the race."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.errors import AuditError
from detlint.runtime.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: what GPUs do is not tested here"),
]


class Calls(nn.Module):
    """Applies a function below a weight, so that gradients flow through it."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.weight, *rest)


@dataclass(frozen=True)
class Case:
    """`op` is what can differ; `cured`: the flag has a deterministic form of it."""

    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    op: str
    code: str
    backward: bool = False
    cured: bool = True


def _index(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(x.device).manual_seed(0)
    return torch.randint(0, 16, x.shape[:1], generator=generator, device=x.device)


N = (1_000_000,)
IMAGE = (4, 8, 64, 64)
CASES = {
    "scatter_add": Case(
        lambda x: x.new_zeros(16).scatter_add(0, _index(x), x), (N,), "aten.scatter_add.default", "DET302"
    ),
    "index_add": Case(lambda x: x.new_zeros(16).index_add(0, _index(x), x), (N,), "aten.index_add.default", "DET302"),
    "bilinear interpolate, backward": Case(
        lambda x: F.interpolate(x, scale_factor=3.3, mode="bilinear"),
        (IMAGE,),
        "aten.upsample_bilinear2d_backward.default",
        "DET302",
        backward=True,
    ),
    "adaptive pooling, backward": Case(
        lambda x: F.adaptive_avg_pool2d(x, 5),
        (IMAGE,),
        "aten._adaptive_avg_pool2d_backward.default",
        "DET301",
        backward=True,
        cured=False,
    ),
    "cuDNN convolution, backward": Case(
        lambda x, w: F.conv2d(x, w),
        (IMAGE, (8, 8, 3, 3)),
        "aten.convolution_backward.default",
        "DET302",
        backward=True,
    ),
}


def audited(case: Case, runs: int = 20) -> detlint.AuditReport:
    generator = torch.Generator("cuda").manual_seed(0)
    sample = tuple(torch.randn(shape, generator=generator, device="cuda") for shape in case.shapes)
    model = Calls(case.function).cuda()
    return detlint.audit(model, sample, probes=("repeat",), runs=runs, backward=case.backward, targets=("cuda",))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_hazard_of_the_gpu_is_named_where_it_ran(case: Case) -> None:
    report = audited(case)
    named = {(finding.op, finding.code) for finding in report.findings if finding.code != "DET701"}
    assert (case.op, case.code) in named
    assert not any("predicted" in finding.message for finding in report.findings)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_runs_part_it_is_at_that_operator(case: Case) -> None:
    repeat = audited(case).probes["repeat"]
    if repeat.verdict is Verdict.BITWISE:
        pytest.skip("this GPU gave the same bits 20 times")
    assert repeat.first_divergence is not None
    assert repeat.first_divergence.op == case.op


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore::detlint.DeterminismWarning")
def test_deterministic_cures_or_refuses(case: Case) -> None:
    with detlint.deterministic():
        if not case.cured:
            with pytest.raises(AuditError, match="deterministic"):
                audited(case)
            return
        assert audited(case).probes["repeat"].verdict is Verdict.BITWISE


def test_generators_of_the_gpu_are_seeded_and_put_back() -> None:
    torch.cuda.init()
    before = torch.cuda.get_rng_state_all()
    with detlint.deterministic(seed=1):
        first = torch.rand(3, device="cuda")
    with detlint.deterministic(seed=1):
        assert torch.equal(torch.rand(3, device="cuda"), first)
    after = torch.cuda.get_rng_state_all()
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_the_environment_names_the_gpu() -> None:
    gpus = detlint.read_environment(initialize_cuda=True).gpus
    assert [gpu.name for gpu in gpus] == [
        torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
    ]
