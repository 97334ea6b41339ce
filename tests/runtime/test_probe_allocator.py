"""Reads of memory that nothing was written to, in the model, in its output, and inside torch."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.poison import poisoned
from detlint.runtime.report import Cause


def probed(model: object, sample: object) -> detlint.api.AuditReport:
    return detlint.audit(model, sample, probes=("allocator",))  # type: ignore[arg-type]


class Leftover(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.empty(x.shape)
        return x + noise


class PartlyWritten(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape[0] + 2, x.shape[1])
        out[:-2] = x
        return out


class Written(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        return torch.mul(x, 2, out=out).relu()


class CircularPad(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (-2, 0, 4, -2), mode="circular")


def test_a_read_of_uninitialised_memory_is_found_and_named() -> None:
    result = probed(Leftover(), torch.randn(64, 64)).probes["allocator"]
    assert result.verdict.value == "beyond-rounding"
    assert result.kind is Cause.UNINITIALIZED
    assert result.first_divergence is not None
    assert result.first_divergence.op == "aten.add.Tensor"
    assert result.first_divergence.source is not None
    assert result.first_divergence.source.path == __file__


def test_a_fill_is_not_mistaken_for_a_cure() -> None:
    result = probed(Leftover(), torch.randn(64, 64)).probes["allocator"]
    assert "hide that by filling" in result.cause
    settings = [line for line in result.evidence if line.startswith("deterministic algorithms")]
    assert [": other bits" in line for line in settings] == [True, True, False]


def test_rows_of_the_output_that_are_never_written() -> None:
    result = probed(PartlyWritten(), torch.randn(5, 8)).probes["allocator"]
    assert result.verdict.value == "beyond-rounding"
    assert result.kind is Cause.UNINITIALIZED
    assert result.worst is not None
    assert result.worst.differing == 2 * 8


def test_memory_that_is_written_before_it_is_read_is_fine() -> None:
    report = probed(nn.Sequential(nn.Linear(8, 8), Written()), torch.randn(5, 8))
    assert report.probes["allocator"].verdict.value == "bitwise"
    assert report.ok


def test_torch_itself_leaves_memory_unwritten_in_circular_padding() -> None:
    def padded(octet: int) -> torch.Tensor:
        with poisoned(octet):
            return F.pad(torch.ones(1, 2, 4, 4), (-2, 0, 4, -2), mode="circular")

    unwritten = (padded(0x00) != padded(0xFE)).sum()  # independent of the probe
    if not unwritten:
        pytest.skip(f"torch {torch.__version__} writes all of it")
    result = probed(CircularPad(), torch.ones(1, 2, 4, 4)).probes["allocator"]
    assert result.verdict.value == "beyond-rounding"
    assert result.worst is not None
    assert result.worst.differing == unwritten


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="malloc is asked to fill memory with glibc only")
def test_memory_inside_a_custom_operator_is_reached() -> None:
    @torch.library.custom_op("detlint_test::leftover", mutates_args=(), schema="(Tensor x) -> Tensor")
    def leftover(x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty(x.shape)

    report = probed(lambda x: leftover(x) * 2, torch.randn(4, 4))
    event = report.probes["allocator"].first_divergence
    assert event is not None
    assert event.name == "detlint_test.leftover"


def test_memory_is_as_always_afterwards() -> None:
    with poisoned(0xFE):
        assert torch.empty(1000).min() < -1e38
    probed(Leftover(), torch.randn(64, 64))
    fresh = [torch.empty(1000) for _ in range(20)]
    assert not all(bool((tensor < -1e38).all()) for tensor in fresh)


def test_what_is_weighted_with_zero_is_read_all_the_same() -> None:
    """Zero times a huge number is zero, zero times NaN is not."""

    def masked(x: torch.Tensor) -> torch.Tensor:
        table = x.new_empty(8, x.shape[1])
        table[:2] = x
        weights = torch.tensor([0.5, 0.5, 0, 0, 0, 0, 0, 0])
        return weights @ table

    result = probed(masked, torch.randn(2, 4)).probes["allocator"]
    assert result.verdict.value == "beyond-rounding"
    assert result.kind is Cause.UNINITIALIZED
    assert result.change == "poisoned memory (NaN)"
