"""What a model changes of what it holds is named and put back; what cannot be put back is borne."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from detlint.errors import AuditError
from detlint.runtime import guard
from detlint.runtime.audit import audit
from detlint.runtime.guard import Guard
from tests.runtime.states import assert_same, state_of


class Remembering(nn.Module):
    """Changes what it is told to change."""

    def __init__(self, change: Callable[[Remembering], object]) -> None:
        super().__init__()
        self.change = change
        self.calls, self.sizes, self.seen, self.cache = 0, (1, 2), [0], {"a": 300}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self)
        return x


CHANGES: dict[str, tuple[Callable[[Remembering], object], tuple[str, ...]]] = {
    "a number": (lambda model: setattr(model, "calls", model.calls + 1), ("0.calls",)),
    "an item of a list": (lambda model: model.seen.append(1), ("0.seen",)),
    "an item of a dict": (lambda model: model.cache.update(a=301), ("0.cache",)),
    "another object": (lambda model: setattr(model, "sizes", (1, 3)), ("0.sizes",)),
    "a new attribute": (lambda model: setattr(model, "fresh", None), ("0.fresh",)),
    "the same again": (lambda model: setattr(model, "sizes", (1, 2)), ()),
    "nothing": (lambda model: None, ()),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_attributes_that_change_are_named_until_put_back(
    change: Callable[[Remembering], object], expected: tuple[str, ...]
) -> None:
    model = nn.Sequential(Remembering(change))
    with Guard((model,)) as guard:
        model(torch.ones(1))
        assert guard.changed() == expected
        guard.rewind()
        assert guard.changed() == ()


def test_an_audit_says_what_the_model_changed() -> None:
    report = audit(nn.Sequential(Remembering(CHANGES["a number"][0])), torch.ones(1), probes="repeat")
    assert any("the model changed 0.calls while it ran" in spot for spot in report.blind_spots)


def _write_with_gradients(model: Remembering) -> None:
    model.buffer[:2] = model.weight * 2


def _write_to_an_attribute(model: Remembering) -> None:
    model.plain += 1
    model.caches[0]["k"][0].add_(1)


def _resize(model: Remembering) -> None:
    model.buffer.resize_(2)


def _swap(model: Remembering) -> None:
    model.weight.data = model.weight.data * 2


def _grow_within(model: Remembering) -> None:
    model.caches[0]["v"] = model.calls


class Holding(Remembering):
    """Holds tensors in all the ways there are, and keeps some of its containers deep in others."""

    def __init__(self, change: Callable[[Remembering], object]) -> None:
        super().__init__(change)
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("buffer", torch.zeros(4))
        self.plain = torch.zeros(2)
        self.caches = [{"k": (torch.zeros(2),), "v": None}]
        self._count = 0


WRITES: dict[str, tuple[Callable[[Any], object], tuple[str, ...]]] = {
    "a buffer, with gradients": (_write_with_gradients, ("0.buffer",)),
    "tensors that are attributes": (_write_to_an_attribute, ("0.plain", "0.caches[0]['k'][0]")),
    "the size of a buffer": (_resize, ("0.buffer",)),
    "the data of a parameter": (_swap, ("0.weight",)),
    "an item far inside": (_grow_within, ("0.caches[0]",)),
    "a name that begins with an underscore": (lambda model: setattr(model, "_count", model._count + 1), ("0._count",)),
}


@pytest.mark.parametrize(("change", "expected"), WRITES.values(), ids=WRITES.keys())
def test_what_a_module_holds_is_named_and_put_back(change: Callable[[Any], object], expected: tuple[str, ...]) -> None:
    model = nn.Sequential(Holding(change))
    inner: Any = model[0]
    before = state_of(inner)
    report = audit(model, torch.ones(1), probes=("repeat", "grad"))
    assert_same(before, state_of(inner))
    assert inner.buffer.is_leaf
    assert any(f"the model changed {', '.join(expected)} while it ran" in spot for spot in report.blind_spots)
    assert not any("put back:" in spot for spot in report.blind_spots)


class Refusing(OrderedDict[str, int]):
    """As the `FrozenDict` of diffusers: it can be emptied and not be filled."""

    def __setitem__(self, key: str, value: int) -> None:
        raise TypeError("not to be changed")

    def update(self, *others: Any, **more: int) -> None:
        raise TypeError("not to be changed")


def test_containers_that_refuse_changes_stay_as_they_are() -> None:
    model = Remembering(lambda model: OrderedDict.__setitem__(model.settings, "b", 2))
    model.settings = Refusing()
    OrderedDict.__setitem__(model.settings, "a", 1)
    assert audit(model, torch.ones(1), probes="repeat").ok
    assert dict(model.settings) == {"a": 1}


def test_what_cannot_be_put_back_keeps_nothing_else_from_it() -> None:
    def change(model: Any) -> None:
        model.part += model.weight.sum()
        model.calls += 1

    model: Any = Holding(change)
    model.register_buffer("part", model.buffer[:2])  # autograd lets no view forget where its values come from
    report = audit(model, torch.ones(1), probes=("repeat", "grad"))
    assert any("part could not be put back: RuntimeError" in spot for spot in report.blind_spots)
    assert model.buffer.tolist() == [0, 0, 0, 0]
    assert model.calls == 0


@pytest.mark.parametrize("execute", [True, False])
def test_sparse_buffers_are_audited(execute: bool) -> None:
    def propagate(model: Any) -> None:
        model.product = torch.sparse.mm(model.adjacency, torch.ones(2, 2))

    model = Remembering(propagate)
    model.register_buffer("adjacency", torch.eye(2).to_sparse())
    report = audit(model, torch.ones(1), probes=("repeat", "layout"), execute=execute)
    assert report.ok
    assert not hasattr(model, "product")


def test_a_model_whose_parameters_have_no_shape_is_refused_in_one_line() -> None:
    with pytest.raises(AuditError, match=r"0\.weight has no shape before the first call: run the model once first"):
        audit(nn.Sequential(nn.LazyLinear(2)), torch.ones(1, 2))


def test_settings_are_put_back_between_runs() -> None:
    seen: list[torch.dtype] = []

    def change(model: Remembering) -> None:
        seen.append(torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)

    audit(Remembering(change), torch.ones(1), probes="repeat")
    assert set(seen) == {torch.float32}


class Link:
    """One of many objects that hold each other."""

    def __init__(self, after: object) -> None:
        self.after = after


def test_objects_that_hold_each_other_for_long_are_borne() -> None:
    model = nn.Linear(8, 8)
    model.chain = None  # type: ignore[assignment]
    for _ in range(5_000):
        model.chain = Link(model.chain)  # type: ignore[assignment]
    model.ring = Link(None)  # type: ignore[assignment]
    model.ring.after = model.ring
    assert audit(model, torch.ones(2, 8), probes=["repeat", "history"]).ok


def test_a_generator_without_a_state_is_borne() -> None:
    model = nn.Linear(8, 8)
    model.source = random.SystemRandom()  # type: ignore[assignment]
    assert audit(model, torch.ones(2, 8), probes=["repeat"]).ok


def test_large_data_is_not_copied_but_the_audit_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_MOST_BYTES", 100)
    model = nn.Linear(8, 8)
    model.rows = [np.zeros(10), np.zeros(10)]  # type: ignore[assignment]
    assert audit(model, torch.ones(2, 8), probes=["repeat", "history"]).ok
