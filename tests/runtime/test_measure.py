"""Figures of a difference, checked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from detlint.runtime.measure import difference, differences, same_bits
from detlint.runtime.reference import judge, rounding_bound
from detlint.runtime.report import Verdict
from tests.runtime.hand_made import event, tensor


def test_equal_bits_are_no_difference() -> None:
    assert difference("x", torch.ones(3), torch.ones(3)) is None


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        pytest.param([0.0], [-0.0], False, id="zeros"),
        pytest.param([math.nan], [math.nan], True, id="nan"),
        pytest.param([1.0], [1.0], True, id="one"),
    ],
)
def test_bits_decide(one: list[float], two: list[float], same: bool) -> None:
    assert same_bits(torch.tensor(one), torch.tensor(two)) is same


def test_strides_do_not_decide() -> None:
    x = torch.randn(3, 4)
    assert same_bits(x, x.t().contiguous().t())


def test_figures() -> None:
    one = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    two = torch.tensor([[1.0, 2.0], [4.5, 8.0]])
    found = difference("x", one, two)
    assert found is not None
    assert (found.numel, found.differing, found.max_abs, found.place) == (4, 1, 0.5, (1, 0))
    assert found.max_rel == pytest.approx(0.5 / 4.5)
    assert found.max_ulp == 2**20  # 4.0 and 4.5 lie an eighth of a binade apart: 2**23 / 8
    assert found.percentiles == (0.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    assert found.psnr == pytest.approx(10 * math.log10(64 / (0.25 / 4)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [1.0, -1.0, 1e-3, 0.0])
def test_neighbours_are_one_ulp_apart(dtype: torch.dtype, value: float) -> None:
    one = torch.tensor([value], dtype=dtype)
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[one.element_size()]
    two = (one.view(integers) + 1).view(dtype)
    found = difference("x", one, two)
    assert found is not None
    assert found.max_ulp == 1


def test_ulps_are_counted_across_zero() -> None:
    tiny = torch.tensor([1], dtype=torch.int32).view(torch.float32)
    found = difference("x", tiny, -tiny)
    assert found is not None
    assert found.max_ulp == 2


def test_the_ends_of_float64_do_not_overflow() -> None:
    most = torch.tensor([torch.finfo(torch.float64).max], dtype=torch.float64)
    found = difference("x", most, -most)
    assert found is not None
    assert found.max_ulp == torch.iinfo(torch.int64).max


@pytest.mark.parametrize(
    ("one", "two", "greatest"),
    [
        pytest.param([1.0, math.nan], [1.0, 2.0], math.inf, id="nan-on-one-side"),
        pytest.param([math.inf], [1.0], math.inf, id="infinity-on-one-side"),
        pytest.param([math.inf, 1.0], [math.inf, 1.5], 0.5, id="infinity-on-both"),
        pytest.param([math.nan, 1.0], [math.nan, 1.5], 0.5, id="nan-on-both"),
        pytest.param([0.0], [-0.0], 0.0, id="sign-of-zero"),
    ],
)
def test_numbers_that_are_none(one: list[float], two: list[float], greatest: float) -> None:
    found = difference("x", torch.tensor(one), torch.tensor(two))
    assert found is not None
    assert (found.max_abs, found.differing) == (greatest, 1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.complex64])
def test_other_dtypes_are_measured(dtype: torch.dtype) -> None:
    found = difference("x", torch.tensor([0, 1], dtype=dtype), torch.tensor([1, 1], dtype=dtype))
    assert found is not None
    assert (found.differing, found.max_abs) == (1, 1.0)


def test_other_shapes_and_missing_outputs_count_as_endless() -> None:
    found = differences({"a": torch.ones(2), "b": torch.ones(1)}, {"a": torch.ones(3)})
    assert [(item.name, item.max_abs) for item in found] == [("a", math.inf), ("b", math.inf)]


EXACT = torch.tensor([1.0, 2.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        pytest.param([1.0, 2.0000002], [1.0000001, 2.0], Verdict.ROUNDING, id="both-near"),
        pytest.param([1.01, 2.0], [1.0, 2.01], Verdict.ROUNDING, id="equally-far"),
        pytest.param([1.0, 2.0000002], [1.001, 2.0], Verdict.BEYOND_ROUNDING, id="one-much-farther"),
        pytest.param([1.0, 2.0], [1.0, math.nan], Verdict.BEYOND_ROUNDING, id="nan-on-one-side"),
    ],
)
def test_rounding_means_about_equally_near(one: list[float], two: list[float], verdict: Verdict) -> None:
    assert judge(torch.tensor(one), torch.tensor(two), EXACT, ()) is verdict


def test_integers_never_round() -> None:
    assert judge(torch.tensor([1]), torch.tensor([2]), None, ()) is Verdict.BEYOND_ROUNDING


def test_a_reference_that_is_not_in_float64_is_none() -> None:
    """Models that make float32 tensors inside compute in float32 whatever goes in."""
    added = event("aten.index_put_.default", outputs=(), self=tensor(1, 50), values=tensor(2, 1_000_000))
    one, two = torch.tensor([1.0]), torch.tensor([1.0 + 1e-5])
    assert judge(one, two, one.clone(), [added]) is Verdict.ROUNDING
    assert judge(one, two, one.double(), [added]) is Verdict.BEYOND_ROUNDING
    assert judge(one, one + 0.01, one.clone(), [added]) is Verdict.BEYOND_ROUNDING


def test_without_a_reference_sums_bound_the_error() -> None:
    product = event("aten.mm.default", outputs=(), self=tensor(1, 8, 10_000), mat2=tensor(2, 10_000, 8))
    bound = rounding_bound([product], 2.0**-23)
    assert bound == pytest.approx(4 * 2.0**-23 * 101)
    near, far = torch.tensor([1.0]) + bound / 2, torch.tensor([1.0]) + bound * 2
    assert judge(torch.tensor([1.0]), near, None, [product]) is Verdict.ROUNDING
    assert judge(torch.tensor([1.0]), far, None, [product]) is Verdict.BEYOND_ROUNDING


def test_complex_numbers_are_counted_as_one() -> None:
    one = torch.zeros(4, 3, dtype=torch.complex64)
    two = one.clone()
    two[2, 1] = 3 + 4j
    found = difference("x", one, two)
    assert found is not None
    assert (found.numel, found.differing, found.place) == (12, 1, (2, 1))


@pytest.mark.parametrize("other", [math.nan, -math.inf, 1.0])
def test_infinities_are_no_rounding_of_anything_else(other: float) -> None:
    one, two = torch.tensor([1.0, math.inf]), torch.tensor([1.0, other])
    assert judge(one, two, None, ()) is judge(two, one, None, ()) is Verdict.BEYOND_ROUNDING
    near = torch.nextafter(one, torch.tensor([2.0, math.inf]))
    assert judge(one, near, None, ()) is Verdict.ROUNDING
