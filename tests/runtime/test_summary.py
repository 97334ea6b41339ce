"""What a record keeps of a tensor: statistics, some of its values, and a digest."""

from __future__ import annotations

import math

import pytest
import torch

from detlint.runtime.records.summary import VALUES, Summary, summarize_all


def summary(tensor: torch.Tensor) -> Summary:
    return summarize_all({"it": tensor})["it"]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int64,
        torch.bool,
        torch.uint16,
        torch.uint32,
        torch.uint64,
    ],
)
def test_statistics_are_those_of_the_tensor(dtype: torch.dtype) -> None:
    drawn = torch.randn(300, 700, generator=torch.Generator().manual_seed(0)) * 9
    tensor = (drawn if dtype.is_signed else drawn.abs()).to(dtype)
    wide, kept = tensor.double(), summary(tensor)
    assert kept.statistics is not None
    assert kept.statistics.minimum == wide.min()
    assert kept.statistics.maximum == wide.max()
    assert kept.statistics.mean == pytest.approx(float(wide.mean()), rel=1e-9)
    assert kept.statistics.norm == pytest.approx(float(wide.norm()), rel=1e-12)
    assert (kept.statistics.nan, kept.statistics.infinite) == (0, 0)


def test_statistics_are_of_the_finite_elements_and_count_the_others() -> None:
    kept = summary(torch.tensor([1.0, math.nan, -3.0, math.inf, -math.inf, math.nan])).statistics
    assert kept is not None
    assert (kept.minimum, kept.maximum, kept.mean, kept.norm) == (-3.0, 1.0, -1.0, math.sqrt(10))
    assert (kept.nan, kept.infinite) == (2, 2)


@pytest.mark.parametrize("tensor", [torch.full((3,), math.nan), torch.zeros(0), torch.tensor(2.5), torch.tensor([1j])])
def test_unusual_tensors_are_summarized(tensor: torch.Tensor) -> None:
    kept = summary(tensor)
    assert kept.shape == tuple(tensor.shape)
    assert kept.digest is not None


def test_values_are_spread_over_the_tensor_at_the_same_positions() -> None:
    places = torch.arange(1000.0)
    kept = summary(places).values
    assert kept is not None
    assert kept.numel() == VALUES
    assert (kept[0], kept[-1]) == (0.0, 999.0)
    assert torch.equal(kept, summary(places.reshape(10, 100)).values)
    gaps = kept.diff()
    assert gaps.min() >= 15
    assert gaps.max() <= 16


def test_layout_changes_nothing_of_a_summary() -> None:
    image = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    one, two = summary(image), summary(image.contiguous(memory_format=torch.channels_last))
    assert one.digest == two.digest
    assert one.statistics == two.statistics
    assert one.values is not None
    assert two.values is not None
    assert torch.equal(one.values, two.values)


def test_small_tensors_are_kept_whole() -> None:
    tensor = torch.randn(7, dtype=torch.bfloat16)
    kept = summary(tensor).values
    assert kept is not None
    assert torch.equal(kept, tensor)
