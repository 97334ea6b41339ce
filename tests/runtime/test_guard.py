"""An audit leaves nothing behind: every attribute is compared, after success and after exceptions."""

from __future__ import annotations

import copy
import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from detlint.errors import AuditError
from detlint.runtime import guard
from detlint.runtime.audit import audit
from detlint.runtime.flags import read_flags
from detlint.runtime.guard import Guard
from detlint.runtime.probes import PROBES


class Unruly(nn.Module):
    """Touches everything that an audit must put back."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.steps = 0
        self.seen: list[int] = []
        self.settings: dict[str, int] = {"a": 1}
        self.action: Callable[[Unruly], None] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.steps += 1
        self.seen.append(self.steps)
        self.settings["b"] = self.steps
        self.cache = x.detach()
        x += 1.0
        with torch.no_grad():
            self.frozen.mul_(1.5)
            self.linear.bias.data.add_(1.0)
        self.frozen.requires_grad_(not self.frozen.requires_grad)
        self.drop.p = 0.25
        self.linear.register_forward_hook(lambda module, args, output: output)
        self.register_buffer("late", torch.ones(1))
        random.random()
        np.random.rand()
        torch.rand(1)
        result = self.drop(self.norm(self.linear(x))) * self.frozen
        self.train(not self.training)
        if self.action is not None:
            self.action(self)
        return result


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything about a model and the process that an audit could change."""
    state: dict[str, Any] = {"flags": read_flags(), "grad": torch.is_grad_enabled()}
    state["dtype"], state["threads"] = torch.get_default_dtype(), torch.get_num_threads()
    state["device"] = torch.empty(0).device
    state["python"], state["numpy"] = random.getstate(), repr(np.random.get_state())
    state["torch"] = torch.get_rng_state().tolist()
    state["start"] = threading.Thread.start
    hooks = torch.nn.modules.module
    state["global hooks"] = (dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks))
    for name, module in model.named_modules():
        plain = {k: v for k, v in vars(module).items() if not k.startswith("_")}
        state[f"attributes of {name}"] = copy.deepcopy(
            tree_map_only(torch.Tensor, torch.Tensor.tolist, {k: v for k, v in plain.items() if k != "action"})
        )
        state[f"hooks of {name}"] = {k: list(v) for k, v in vars(module).items() if k.endswith("_hooks")}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        state[f"content of {name}"] = tensor.detach().clone().tolist()
        state[f"address of {name}"] = (id(tensor), tensor.data_ptr(), tensor.stride())
        state[f"flag of {name}"] = tensor.requires_grad
        state[f"gradient of {name}"] = None if tensor.grad is None else (id(tensor.grad), tensor.grad.tolist())
    return state


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for name in before:
        assert before[name] == after[name], name


@pytest.fixture
def model() -> Unruly:
    torch.manual_seed(0)
    model = Unruly()
    model.linear(torch.ones(1, 4)).sum().backward()  # leaves gradients that must stay
    return model


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backward", [True, False])
def test_nothing_is_left_changed(model: Unruly, training: bool, backward: bool) -> None:
    model.train(training)
    sample = torch.arange(12.0).reshape(3, 4)
    before, content = state_of(model), sample.clone()
    audit(model, sample, backward=backward, runs=2)
    assert_same(before, state_of(model))
    assert torch.equal(sample, content)


@pytest.mark.parametrize("name", sorted(PROBES))
def test_no_probe_leaves_a_change(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.1), nn.ReLU(), nn.Conv2d(8, 3, 3))
    images = torch.randn(2, 3, 24, 24)
    before, content = state_of(model), images.clone()
    audit(model, images, probes=[name])
    assert_same(before, state_of(model))
    assert torch.equal(images, content)


@pytest.mark.parametrize("name", sorted(PROBES.keys() - {"compile"}))  # the compiler gives up on such a model at once
def test_no_probe_leaves_a_change_of_a_model_that_changes_itself(model: Unruly, name: str) -> None:
    before = state_of(model)
    audit(model, torch.arange(12.0).reshape(3, 4), probes=[name])
    assert_same(before, state_of(model))


def _raise(model: Unruly) -> None:
    raise ValueError("on purpose")


def _stop(model: Unruly) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("action", "error"),
    [pytest.param(_raise, AuditError, id="exception"), pytest.param(_stop, KeyboardInterrupt, id="interrupt")],
)
def test_nothing_is_left_changed_by_a_model_that_raises(
    model: Unruly, action: Callable[[Unruly], None], error: type[BaseException]
) -> None:
    model.action = action
    before = state_of(model)
    with pytest.raises(error):
        audit(model, torch.ones(3, 4))
    assert_same(before, state_of(model))


def _settings(model: Unruly) -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(1)
    torch.set_default_device("meta")


def test_settings_that_the_model_changes_are_put_back(model: Unruly) -> None:
    model.action = _settings
    before = state_of(model)
    audit(model, torch.ones(3, 4), probes=("repeat",))
    assert_same(before, state_of(model))


def _rebind(model: Unruly) -> None:
    model.linear.weight.data = torch.zeros(4, 4)
    model.linear.bias = nn.Parameter(torch.zeros(4))
    model.norm = nn.BatchNorm1d(4)


def test_parameters_and_modules_that_are_replaced_come_back(model: Unruly) -> None:
    model.action = _rebind
    before = state_of(model)
    audit(model, torch.ones(3, 4), probes=("repeat",))
    assert_same(before, state_of(model))


def _behind_the_back(model: Unruly) -> None:
    model.linear.weight.detach().numpy()[0, 0] += 1


def test_what_cannot_be_put_back_is_said(model: Unruly) -> None:
    model.action = _behind_the_back
    report = audit(model, torch.ones(3, 4), probes=("repeat",))
    assert any("linear.weight was changed" in spot for spot in report.blind_spots)


def test_parameters_are_copied_only_when_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from detlint.runtime.held import Content

    saved: list[str] = []
    save = Content.save
    monkeypatch.setattr(Content, "save", lambda self: (saved.append(self.name), save(self)))
    audit(nn.Linear(4, 4), torch.ones(1, 4), backward=True, runs=2)
    assert saved == []


def test_shared_parameters_and_buffers_are_restored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.register_buffer("base", torch.zeros(6))
            self.register_buffer("part", self.base[2:4])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.part += 1
            with torch.no_grad():
                self.two.weight.add_(1)
            return self.two(self.one(x)) + self.base.sum()

    model = Tied()
    before = state_of(model)
    assert audit(model, torch.ones(2, 3), probes=("repeat",)).probes["repeat"].verdict.value == "bitwise"
    assert_same(before, state_of(model))


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
