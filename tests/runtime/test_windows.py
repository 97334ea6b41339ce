"""Two runs of different shapes, compared operator by operator in the part that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from detlint.runtime.guard import Guard
from detlint.runtime.passes import Case, Runner
from detlint.runtime.sample import Sample
from detlint.runtime.targets import modules_of
from detlint.runtime.windows import Alone, Departure, Side, Window, everywhere, first_departure, watch

BATCH = torch.randn(4, 3, 20, 20, generator=torch.Generator().manual_seed(0))


def row(number: int) -> Callable[[int, int, tuple[int, ...]], Sequence[Window]]:
    """Locate one sample in tensors whose first dimension has the size of the batch; others are shared."""

    def locate(index: int, place: int, shape: tuple[int, ...]) -> Sequence[Window]:
        return ((slice(number, number + 1),) if shape and shape[0] == len(BATCH) else (),)

    return locate


def sides(model: Callable[..., object], number: int) -> tuple[Runner, Side, Side]:
    """Watch the batch and one sample of it; the guard has nothing to put back."""
    modules = modules_of(model)
    with Guard(modules) as guard:
        runner = Runner(guard)
        one = watch(runner, Case(model, modules, Sample((BATCH,))), row(number))
        two = watch(runner, Case(model, modules, Sample((BATCH[number : number + 1].clone(),))), everywhere)
    return runner, one, two


def departure(model: Callable[..., object], number: int = 2) -> Departure | None:
    _, one, two = sides(model, number)
    return first_departure(one, two)


def op_of(found: Departure | None) -> str:
    assert found is not None
    assert found.first is not None
    return found.first.op


def test_elementwise_models_do_not_depart() -> None:
    assert departure(lambda x: (x.relu() * 2).sum(dim=(1, 2, 3))) is None


def test_the_operator_that_mixes_samples_is_named() -> None:
    found = departure(lambda x: (x * 2 - x.mean(0, keepdim=True)).relu())
    assert op_of(found) == "aten.mean.dim"
    assert found is not None
    assert not found.forks
    assert found.unfollowed is None


def test_positions_are_not_taken_for_the_cause() -> None:
    """`arange` gives each sample another number, but what is picked by it agrees."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(len(x)), 1] - x.amax((0, 1))

    assert op_of(departure(model)) == "aten.amax.default"
    found = departure(lambda x: x + torch.arange(len(x)).view(-1, 1, 1, 1))
    assert op_of(found) == "aten.arange.default"
    assert found is not None
    assert found.given


def test_other_operators_for_another_size_are_a_fork() -> None:
    found = departure(lambda x: x.exp() + 1 if len(x) > 1 else x.cos() + 1)
    assert found is not None
    assert found.forks
    assert (found.first and found.first.op, found.second and found.second.op) == (
        "aten.exp.default",
        "aten.cos.default",
    )


def test_what_cannot_be_followed_is_said() -> None:
    """Which values come out of `unique` depends on all of them, and so does their number."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * x.unique().sum()

    runner, one, two = sides(model, 2)
    found = first_departure(one, two)
    assert op_of(found) == "aten.sum.default"
    assert found is not None
    assert found.unfollowed is not None
    assert found.unfollowed.op.startswith("aten._unique2")
    with Guard(one.case.modules):
        assert Alone(runner, one, two, found).repro("sums of other values") is None


@pytest.mark.parametrize("number", [0, 3])
def test_the_operator_alone_shows_the_difference_again(number: int) -> None:
    """Batch statistics: what the operator alone is measured to do is what the model as a whole does."""
    model = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3, track_running_stats=False))
    runner, one, two = sides(model, number)
    found = first_departure(one, two)
    assert "batch_norm" in op_of(found)
    assert found is not None
    alone = Alone(runner, one, two, found)
    assert alone.differs()
    divergence = alone.divergence()
    assert divergence.confirmed
    assert divergence.at_operator is not None
    expected = (model(BATCH)[number : number + 1] - model(BATCH[number : number + 1])).detach().abs().max()
    assert divergence.at_operator.max_abs >= float(expected) > 0.1


def test_what_mixes_is_not_hidden_behind_what_rounds() -> None:
    """A matrix product may round otherwise for a batch; the softmax over the batch is what is wrong."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(1200, 64), nn.ReLU(), nn.Linear(64, 8), nn.Softmax(dim=0))
    _, one, two = sides(model, 1)
    assert op_of(first_departure(one, two, beyond_rounding=True)) == "aten._softmax.default"
    assert op_of(first_departure(one, two)) in ("aten.addmm.default", "aten.linear.default", "aten._softmax.default")
    _, one, two = sides(model[:-1], 1)
    assert first_departure(one, two, beyond_rounding=True) is None
