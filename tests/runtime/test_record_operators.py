"""Records of other sequences of operators: what did the same work is aligned, and what did not is named."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import detlint
from detlint.runtime.report import Verdict
from tests.runtime import recordings
from tests.runtime.recordings import image, net, subjects


def test_other_operators_for_the_same_work_are_aligned() -> None:
    weight = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))

    def one(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.relu(x), weight).exp()

    def two(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x)[:, None] * weight).sum(-1).exp()

    first = detlint.record(one, (x, weight))
    found = detlint.compare(first, detlint.record(two, (x, weight)))
    assert found.verdict in (Verdict.BITWISE, Verdict.ROUNDING)
    (stretch,) = found.stretches
    assert [event.op for event in stretch.first] == ["aten.t.default", "aten.mm.default"]
    assert stretch.second[-1].op == "aten.sum.dim_IntList"
    assert found.pairs == len(first.trace) - len(stretch.first)  # relu, exp, and the detach of the output
    if found.first is not None:
        assert found.first.stretch == stretch
        assert found.first.same_inputs
        assert subjects(found) == ["operators"]


def test_extra_operators_that_change_nothing_are_no_departure() -> None:
    def one(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).exp().sum()

    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).clone().exp().sum()

    found = detlint.compare(detlint.record(one, image()), detlint.record(two, image()))
    assert found.verdict is Verdict.BITWISE
    assert found.departures == ()
    assert [event.op for stretch in found.stretches for event in stretch.second] == ["aten.clone.default"]


def test_another_operator_is_named_with_its_line() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net(activation=torch.tanh), image()))
    assert found.first is not None
    assert (found.first.event.op, found.first.other.op) == ("aten.relu.default", "aten.tanh.default")
    assert found.first.same_inputs
    assert found.first.event.source is not None
    assert found.first.event.source.path == recordings.__file__
