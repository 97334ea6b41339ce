"""Audits from end to end: what goes in, what comes out, what is left behind."""

from __future__ import annotations

import functools
import gc
import json
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import detlint
from detlint.findings import Severity
from detlint.runtime import digests
from detlint.runtime.report import Verdict
from tests.runtime.models import X, audited, small, unseen_numbers


def test_a_plain_model_passes_every_probe() -> None:
    report = detlint.audit(small().eval(), X)
    assert report.ok, report.failures()
    assert {probe.verdict for probe in report.probes.values()} <= {Verdict.BITWISE, Verdict.ROUNDING}
    assert {finding.severity for finding in report.findings} <= {Severity.INFO}
    detlint.assert_deterministic(small().eval(), X)


def test_nothing_of_an_audit_is_left_when_its_report_is_dropped() -> None:
    def tensors() -> Counter[str]:
        gc.collect()
        return Counter(type(item).__name__ for item in gc.get_objects() if issubclass(type(item), torch.Tensor))

    model = small()
    warm = audited(model, X, "repeat", "mode", backward=True)
    assert warm.graph is not None  # torch keeps the shapes of the graph it captured last
    del warm
    before = tensors()
    report = audited(model, X, "repeat", "mode", backward=True)
    assert report.graph is not None
    kept = weakref.ref(report), weakref.ref(report.graph), weakref.ref(model)
    del report
    assert not tensors() - before  # what other tests left may go at any time
    del model
    gc.collect()
    assert [reference() for reference in kept] == [None, None, None]


@dataclass
class Result:
    logits: torch.Tensor
    extra: dict[str, list[torch.Tensor]]


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor | None


class Cache:
    """As transformers keep keys and values, neither a container nor known to pytree."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.layers = [Layer(self, keys)]
        self.size = 1


class Layer:
    def __init__(self, cache: Cache, keys: torch.Tensor) -> None:
        self.cache, self.keys, self.model = cache, keys, nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("output", "names"),
    [
        pytest.param(lambda x: x, ["output"], id="tensor"),
        pytest.param(lambda x: (x, [x, 1]), ["[0]", "[1][0]"], id="nested"),
        pytest.param(lambda x: {"a": x, "b": {"c": x}}, ["a", "b.c"], id="dict"),
        pytest.param(lambda x: Result(x, {"h": [x]}), ["logits", "extra.h[0]"], id="dataclass"),
        pytest.param(lambda x: Pair(x, None), ["first"], id="named-tuple"),
        pytest.param(lambda x: {"cache": Cache(x)}, ["cache.layers[0].keys"], id="object"),
        pytest.param(lambda x: Cache(x), ["layers[0].keys"], id="object-alone"),
    ],
)
def test_outputs_may_be_any_tree(output: Callable[[torch.Tensor], object], names: list[str]) -> None:
    turns = iter(range(100))
    report = audited(lambda x: output(x + next(turns)))
    assert [difference.name for difference in report.probes["repeat"].outputs] == names


def test_outputs_of_transformers_are_read() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")

    turns = iter(range(100))
    report = audited(lambda x: outputs.BaseModelOutput(last_hidden_state=x + next(turns)))
    assert [difference.name for difference in report.probes["repeat"].outputs] == ["last_hidden_state"]


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(X, id="tensor"),
        pytest.param((X,), id="tuple"),
        pytest.param({"input": X}, id="dict"),
        pytest.param(detlint.Sample((), {"input": X}), id="sample"),
    ],
)
def test_samples_may_be_given_in_four_ways(sample: object) -> None:
    assert audited(nn.Linear(8, 8), sample).ok


def test_a_tuple_with_names_is_one_argument() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(5, 3, 8), torch.tensor([5, 4, 2]))
    assert audited(nn.LSTM(8, 4).eval(), packed, "repeat", "layout").ok
    assert audited(lambda pair: pair.first * 2, Pair(X, None)).ok


def test_one_name_may_stand_for_several() -> None:
    def summed(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(4).index_add(0, torch.zeros(4, dtype=torch.long), x[:, 0])

    one = detlint.audit(summed, X, probes="repeat", targets="cuda", compile_modes="default")
    several = detlint.audit(summed, X, probes=["repeat"], targets=["cuda"], compile_modes=["default"])
    assert one.findings == several.findings != ()


STUDENT = nn.Linear(8, 1)


def step(x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    optimizer = torch.optim.Adam(STUDENT.parameters())
    with torch.enable_grad():
        loss = STUDENT(x).square().mean()
        loss.backward()
        optimizer.step()
    return loss, dict(STUDENT.named_parameters())


def test_a_step_of_training_is_audited_as_the_documentation_shows_it() -> None:
    before = STUDENT.weight.clone()
    report = detlint.audit(step, X)
    assert report.ok, report.failures()
    assert report.probes["repeat"].verdict is Verdict.BITWISE
    assert torch.equal(STUDENT.weight, before)


def test_a_loss_may_be_given_and_is_found_in_outputs() -> None:
    model = nn.Linear(8, 8)
    used: list[bool] = []
    audited(model, X, backward=True, loss=lambda output: used.append(True) or output.mean())
    assert used
    assert audited(lambda x: {"loss": model(x).mean(), "logits": model(x)}, X, backward=True).ok


def test_blind_spots_are_said() -> None:
    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=time.sleep, args=(0.0,))
            thread.start()
            thread.join()
            random.random()
            return self.used(x)

    spots = " | ".join(audited(Blind()).blind_spots)
    for part in ("threads were started (1)", "never called: unused", "drawn from random", "probes not asked for: "):
        assert part in spots


def test_a_probe_that_fails_is_reported_and_the_others_go_on() -> None:
    class OneThreadOnly(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.is_grad_enabled():
                raise RuntimeError("not with gradients")
            return x + 1

    report = audited(OneThreadOnly(), X, "repeat", "grad", "layout")
    assert report.probes["grad"].verdict is Verdict.ERROR
    assert "not with gradients" in report.probes["grad"].reason
    assert report.probes["layout"].verdict is Verdict.BITWISE
    assert not report.ok


def test_the_report_is_json() -> None:
    report = detlint.audit(small().train(), X)
    record = json.loads(report.to_json())
    assert record["ok"] is False
    assert record["probes"]["repeat"]["verdict"] == "bitwise"
    assert len(record["events"]) == len(report.events)


def test_the_graph_is_captured_where_it_is_asked_for_and_leaves_the_model_alone() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Counting.calls += 1
            return x + torch.rand(1)

    model = Counting().eval()
    report = audited(model, X)
    before, state = Counting.calls, torch.get_rng_state()
    assert json.loads(report.to_json())["graph_reason"] == ""
    assert Counting.calls == before
    assert report.graph is report.graph is not None
    assert Counting.calls > before
    assert torch.equal(torch.get_rng_state(), state)


def test_audits_are_deterministic_themselves() -> None:
    def record() -> str:
        findings = detlint.audit(small().train(), X).findings
        return repr(findings)

    assert record() == record()


def test_hazards_fail_only_under_strict() -> None:
    class Hazard(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            where = torch.arange(40_000) // 3  # whole numbers: every order of adding gives the same
            return torch.zeros(50_000).index_put_((where,), torch.ones(40_000), accumulate=True)

    assert audited(Hazard(), X, targets=("cpu",)).ok
    assert not audited(Hazard(), X, targets=("cpu",), strict=True).ok


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors_are_audited(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    assert detlint.audit(lambda x: x * 2, (nested,)).ok
    source = unseen_numbers(0)
    repeat = audited(lambda x: x * next(source), (nested,)).probes["repeat"]
    assert repeat.verdict is Verdict.BEYOND_ROUNDING
    assert [(item.numel, item.differing) for item in repeat.outputs] == [(5, 5)]


def test_a_probe_asked_for_by_name_may_not_be_skipped_under_strict() -> None:
    assert audited(nn.ReLU().eval(), X, "device").ok
    report = audited(nn.ReLU().eval(), X, "device", strict=True)
    assert report.failures() == (f"device: asked for by name, but skipped: {report.probes['device'].reason}",)
    report = detlint.audit(nn.Linear(8, 8), X, backward=True, targets="cpu", strict=True)
    assert report.probes["grad"].verdict is Verdict.SKIPPED  # but was not named
    assert report.ok


def test_where_nothing_was_tested_nothing_passed() -> None:
    assert audited(nn.ReLU().eval(), X, "device").to_text().startswith("NOTHING TESTED ReLU: ")
    assert detlint.audit(nn.ReLU().eval(), X, probes=()).to_text().startswith("NOTHING TESTED ReLU: ")
    assert audited(nn.ReLU().eval(), X, execute=False).to_text().startswith("PASSED ReLU: ")
    assert "no element to compare in output" in audited(nn.ReLU().eval(), torch.ones(0, 8)).blind_spots


def test_the_threads_that_digest_are_no_blind_spot() -> None:
    digests._threads.cache_clear()  # so that they are started during the audit
    report = detlint.audit(nn.ReLU(), torch.randn(3_000_000), probes=("repeat",))
    assert not [spot for spot in report.blind_spots if spot.startswith("threads were started")]


NORM = nn.BatchNorm1d(8)


def _helper(x: torch.Tensor) -> torch.Tensor:
    return NORM(x)


def _by_name(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([NORM(row) for row in x[None]])


def _by_helper(x: torch.Tensor) -> torch.Tensor:
    return _helper(x)


def _in_a_list() -> Callable[[torch.Tensor], torch.Tensor]:
    parts = {"norms": [NORM]}
    return lambda x: parts["norms"][0](x)


def _in_an_inner_function() -> Callable[[torch.Tensor], torch.Tensor]:
    norm = NORM

    def inner(x: torch.Tensor) -> torch.Tensor:
        return norm(x)

    @functools.wraps(inner)
    def outer(*args: Any) -> torch.Tensor:
        return inner(*args)

    return outer


class _Holder:
    def __init__(self) -> None:
        self.parts = [NORM]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts[0](x)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self(x)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a global": _by_name,
    "a helper": _by_helper,
    "a container": _in_a_list(),
    "an inner function": _in_an_inner_function(),
    "an attribute of an object": _Holder(),
    "a method of an object": _Holder().step,
    "a partial": functools.partial(_by_name),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_modules_that_a_function_reaches_are_left_as_they_were(function: Callable[..., torch.Tensor]) -> None:
    NORM.train()
    before = {name: tensor.clone() for name, tensor in NORM.state_dict().items()}
    report = audited(function, X, "repeat", "mode")
    assert all(torch.equal(before[name], tensor) for name, tensor in NORM.state_dict().items())
    assert any(finding.code == "DET201" for finding in report.findings)


def test_modules_that_were_not_known_before_are_a_blind_spot() -> None:
    layers: dict[str, Any] = {"deep": [[[nn.Linear(8, 8), nn.ReLU()]]]}

    def model(x: torch.Tensor) -> torch.Tensor:
        linear, relu = layers["deep"][0][0]
        return relu(linear(x))

    report = audited(model)
    assert [spot for spot in report.blind_spots if "put back" in spot] == [
        "modules ran that the model does not hold, so nothing they changed was put back: <Linear>"
    ]
