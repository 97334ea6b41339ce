"""Where two traces part, and why: told from events written by hand."""

from __future__ import annotations

import pytest

from detlint.runtime.divergence import Parting, agree, cause_of, first_parting
from detlint.runtime.events import Phase, RngUse, Trace
from detlint.runtime.report import Cause
from tests.runtime.hand_made import event, tensor, trace

X, W = tensor(1), tensor(2)


def chain(first: int, second: int, third: int) -> Trace:
    """mm → relu → sum, with these digests."""
    return trace(
        event("aten.mm.default", (X, W), (tensor(first),), module="a"),
        event("aten.relu.default", (tensor(first, origin=0),), (tensor(second),), module="b"),
        event("aten.sum.default", (tensor(second, origin=1),), (tensor(third),), module="c"),
    )


def test_equal_traces_do_not_part() -> None:
    assert first_parting(chain(10, 11, 12), chain(10, 11, 12)) is None


@pytest.mark.parametrize(
    ("other", "op"),
    [
        pytest.param(chain(90, 91, 92), "aten.mm.default", id="from-the-start"),
        pytest.param(chain(10, 91, 92), "aten.relu.default", id="in-the-middle"),
        pytest.param(chain(10, 11, 92), "aten.sum.default", id="at-the-end"),
        pytest.param(chain(10, 91, 12), "aten.relu.default", id="absorbed-again"),
    ],
)
def test_the_first_event_whose_output_differs(other: Trace, op: str) -> None:
    parting = first_parting(chain(10, 11, 12), other)
    assert parting is not None
    assert parting.first is not None
    assert (parting.first.op, parting.forks, parting.inputs_differ) == (op, False, False)
    assert cause_of(parting)[0] is Cause.RUN_TO_RUN


def test_a_scratch_result_that_nothing_reads_is_passed_over() -> None:
    def run(seed: int, result: int) -> Trace:
        return trace(
            event("aten._flash_attention_forward.default", (X,), (tensor(10), tensor(seed))),
            event("aten.scatter_add.default", (tensor(10, origin=0),), (tensor(result),)),
            event("aten.relu.default", (tensor(result, origin=1),), (tensor(result + 1),)),
        )

    parting = first_parting(run(50, 20), run(60, 30))
    assert parting is not None
    assert parting.first is not None
    assert parting.first.op == "aten.scatter_add.default"


def test_other_operators_are_a_fork() -> None:
    one = chain(10, 11, 12)
    two = trace(
        event("aten.mm.default", (X, W), (tensor(10),), module="a"),
        event("aten.gelu.default", (tensor(10, origin=0),), (tensor(70),), module="b"),
        event("aten.sum.default", (tensor(70, origin=1),), (tensor(71),), module="c"),
    )
    parting = first_parting(one, two)
    assert parting is not None
    assert parting.forks
    assert (str(parting.first), str(parting.second)) == (
        "aten.relu.default in b (forward)",
        "aten.gelu.default in b (forward)",
    )
    assert cause_of(parting)[0] is Cause.UNKNOWN


@pytest.mark.parametrize("longer_first", [True, False])
def test_a_trace_that_goes_on_is_a_fork(longer_first: bool) -> None:
    longer = chain(10, 11, 12)
    shorter = Trace(longer.events[:2])
    parting = first_parting(longer, shorter) if longer_first else first_parting(shorter, longer)
    assert parting is not None
    assert parting.forks
    assert (parting.first is None) is not longer_first


def test_a_difference_before_the_fork_comes_first() -> None:
    one = chain(10, 11, 12)
    two = trace(
        event("aten.mm.default", (X, W), (tensor(90),), module="a"),
        event("aten.gelu.default", (tensor(90, origin=0),), (tensor(70),), module="b"),
        event("aten.sum.default", (tensor(70, origin=1),), (tensor(71),), module="c"),
    )
    parting = first_parting(one, two)
    assert parting is not None
    assert (parting.forks, parting.first) == (False, one.events[0])


def test_a_difference_after_a_harmless_fork_is_found() -> None:
    """no_grad runs one operator, grad mode two; both give the same, and then something else differs."""
    one = trace(
        event("aten.linear.default", (X, W), (tensor(10),), module="a"),
        event("aten.sum.default", (tensor(10, origin=0),), (tensor(20),), module="b"),
    )
    two = trace(
        event("aten.t.default", (W,), (W,), module="a"),
        event("aten.addmm.default", (X, W), (tensor(10),), module="a"),
        event("aten.sum.default", (tensor(10, origin=1),), (tensor(30),), module="b"),
    )
    parting = first_parting(one, two)
    assert parting is not None
    assert (parting.forks, parting.first) == (False, one.events[1])


def test_phases_are_not_mixed_up() -> None:
    one = trace(event("aten.mul.Tensor", (X,), (tensor(5),)), event("aten.mul.Tensor", (X,), (tensor(6),)))
    two = trace(
        event("aten.mul.Tensor", (X,), (tensor(5),)),
        event("aten.mul.Tensor", (X,), (tensor(6),), phase=Phase.BACKWARD),
    )
    parting = first_parting(one, two)
    assert parting is not None
    assert parting.forks


@pytest.mark.parametrize(
    ("strides", "canonical", "same"),
    [
        pytest.param((1,), False, False, id="same-strides-other-digest"),
        pytest.param((2,), False, True, id="other-strides-cannot-contradict"),
        pytest.param((2,), True, False, id="canonical-digests-always-compare"),
    ],
)
def test_digests_compare_where_they_can(strides: tuple[int, ...], canonical: bool, same: bool) -> None:
    assert agree(tensor(1), tensor(2, strides=strides), canonical=canonical) is same


def test_strides_of_single_places_do_not_matter() -> None:
    one, two = tensor(1, 4, 1, strides=(1, 1)), tensor(2, 4, 1, strides=(1, 4))
    assert not agree(one, two, canonical=False)


def parting_of(one: dict[str, object], two: dict[str, object]) -> Parting:
    """One event on each side after an event that allocates memory."""

    def run(facts: dict[str, object], result: int) -> Trace:
        allocation = event("aten.empty.memory_format", (), (tensor(None),))
        return trace(allocation, event("aten.add.Tensor", outputs=(tensor(result),), **facts))  # type: ignore[arg-type]

    parting = first_parting(run(one, 5), run(two, 6))
    assert parting is not None
    return parting


@pytest.mark.parametrize(
    ("one", "two", "cause"),
    [
        pytest.param({"inputs": (X,)}, {"inputs": (X,)}, Cause.RUN_TO_RUN, id="same-input"),
        pytest.param({"inputs": (tensor(7),)}, {"inputs": (tensor(8),)}, Cause.STATE, id="another-value-from-outside"),
        pytest.param(
            {"inputs": (X,), "other": 0.25}, {"inputs": (X,), "other": 0.75}, Cause.STATE, id="another-number"
        ),
        pytest.param(
            {"inputs": (tensor(None, origin=0, unfilled=0),)},
            {"inputs": (tensor(None, origin=0, unfilled=0),)},
            Cause.UNINITIALIZED,
            id="never-written",
        ),
        pytest.param(
            {"inputs": (tensor(7, origin=0, unfilled=0),)},
            {"inputs": (tensor(8, origin=0, unfilled=0),)},
            Cause.UNINITIALIZED,
            id="written-in-part",
        ),
        pytest.param(
            {"inputs": (tensor(7, origin=0),)}, {"inputs": (tensor(8, origin=0),)}, Cause.UNKNOWN, id="written-unseen"
        ),
        pytest.param(
            {"inputs": (X,), "rng": RngUse("given", 4)},
            {"inputs": (X,), "rng": RngUse("given", 4)},
            Cause.RANDOMNESS,
            id="draws",
        ),
    ],
)
def test_causes_are_kept_apart(one: dict[str, object], two: dict[str, object], cause: Cause) -> None:
    assert cause_of(parting_of(one, two))[0] is cause


def test_the_destination_of_an_out_overload_is_no_input() -> None:
    def run(result: int) -> Trace:
        fresh = tensor(None, origin=0, unfilled=0)
        return trace(event("aten.addmm.out", (X,), (tensor(result),), mutated=("out",), out=fresh))

    parting = first_parting(run(5), run(6))
    assert parting is not None
    assert cause_of(parting)[0] is Cause.RUN_TO_RUN


def test_ten_thousand_events_align_quickly() -> None:
    """Half of them stand in other places: alignment must not become quadratic in time."""
    common = [event("aten.mul.Tensor", (X,), (tensor(place),), module=str(place)) for place in range(5000)]
    middle = [event("aten.add.Tensor", (X,), (tensor(-place),), module=f"m{place}") for place in range(1000)]
    one, two = trace(*common[:2500], *middle, *common[2500:]), trace(*common)
    parting = first_parting(one, two)
    assert parting is not None
    assert parting.first is not None
    assert (parting.forks, parting.first.index) == (True, 2500)


@pytest.mark.parametrize("result", [20, 30])
def test_a_difference_spreads_if_a_reader_differs_too(result: int) -> None:
    def run(scratch: int, result: int) -> Trace:
        return trace(
            event("aten._ctc_loss.default", (X,), (tensor(10), tensor(scratch))),
            event("aten._ctc_loss_backward.default", (tensor(10), tensor(scratch)), (tensor(result),)),
        )

    parting = first_parting(run(50, 20), run(60, result))
    assert parting is not None
    assert parting.spreads is (result != 20)
