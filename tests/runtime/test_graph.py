"""Captured graphs carry what ran, what can differ and what did; drawn by torch.fx's own drawer."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from detlint.errors import AuditError
from detlint.runtime.capture import capture
from detlint.runtime.catalogue import Catalogue
from detlint.runtime.events import OpEvent
from detlint.runtime.flags import read_flags
from detlint.runtime.graph import annotate, note, save_graph
from detlint.runtime.tracer import Tracer


class Scatter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index = torch.zeros(len(x), dtype=torch.long)
        return torch.zeros(4).scatter_add(0, index, x.sum(1))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.scatter = Scatter()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scatter(self.stem(x)) * 2


class Branching(nn.Module):
    """No way follows a branch on data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0) if float(x.sum()) > 0 else x


class Options:
    """No pytree node: torch.export refuses it."""

    steps = 2


class Stepping(nn.Module):
    """Symbolic tracing refuses to count to a size."""

    def forward(self, x: torch.Tensor, options: Options) -> torch.Tensor:
        for _ in range(x.shape[0] * options.steps):
            x = x.relu()
        return x


def traced(model: nn.Module, x: torch.Tensor) -> tuple[OpEvent, ...]:
    with Tracer((model,)) as tracer, torch.no_grad():
        model(x)
    return tracer.trace().events


def test_a_module_is_exported() -> None:
    captured = capture(Small(), (torch.ones(3, 4),), {})
    assert (captured.how, captured.reason) == ("torch.export", "")
    assert captured.graph is not None


def test_a_function_is_exported() -> None:
    captured = capture(lambda x: x.relu(), (torch.ones(3),), {})
    assert captured.how == "torch.export"


def test_keyword_arguments_reach_the_model() -> None:
    captured = capture(lambda x, *, scale: x * scale, (torch.ones(3),), {"scale": torch.ones(3)})
    assert captured.graph is not None


def test_make_fx_is_the_last_way() -> None:
    captured = capture(Stepping(), (torch.ones(3), Options()), {})
    assert captured.how == "make_fx"
    assert "torch.export: " in captured.reason
    assert "torch.fx.symbolic_trace: " in captured.reason


def test_a_model_that_cannot_be_captured_says_why_for_every_way(capfd: pytest.CaptureFixture[str]) -> None:
    captured = capture(Branching(), (torch.ones(3),), {})
    assert captured.graph is None
    for way in ("torch.export", "torch.fx.symbolic_trace", "make_fx"):
        assert f"{way}: " in captured.reason
    assert "\n" not in captured.reason
    assert capfd.readouterr() == ("", "")


def test_nodes_carry_hazards_and_the_divergence() -> None:
    model, x = Small().eval(), torch.ones(3, 4)
    events = traced(model, x)
    findings = Catalogue.load(("cuda",), read_flags(), torch_version="2.13").findings(events)
    graph = capture(model, (x,), {}).graph
    assert graph is not None
    assert [finding.code for finding in findings] == ["DET302"]
    (scatter,) = [event for event in events if event.op == "aten.scatter_add.default"]
    lost = annotate(graph, events, findings, scatter)
    assert lost == 0
    (node,) = [node for node in graph.graph.nodes if note(node).lines]
    assert node.name.startswith("scatter_add")
    assert node.meta["detlint"].diverges
    assert node.meta["detlint"].hazards == findings
    before = graph.code[: graph.code.index(f"{node.name} = ")].splitlines()
    assert "# runs part here" in before[-3]
    assert "# DET302 scatter_add (predicted for cuda)" in before[-2]


def test_an_annotated_graph_still_runs() -> None:
    model, x = Small().eval(), torch.ones(3, 4)
    graph = capture(model, (x,), {}).graph
    assert graph is not None
    annotate(graph, traced(model, x))
    assert torch.equal(graph(x), model(x))


def test_operators_inside_a_composite_node_belong_to_it() -> None:
    model, x = Small().eval(), torch.ones(3, 4)
    events = traced(model, x)
    assert "aten.addmm.default" in {event.op for event in events}
    graph = capture(model, (x,), {}).graph
    assert graph is not None
    annotate(graph, events)
    (linear,) = [node for node in graph.graph.nodes if node.name == "linear"]
    assert "aten.addmm.default" in {event.op for event in note(linear).events}


def test_events_of_other_modules_are_counted_not_misplaced() -> None:
    model, x = Small().eval(), torch.ones(3, 4)
    graph = capture(model, (x,), {}).graph
    assert graph is not None
    stranger = replace(traced(model, x)[0], module="elsewhere", source=None)
    assert annotate(graph, [stranger]) == 1


def _drawn(tmp_path: Path, name: str) -> str:
    pytest.importorskip("pydot")
    model, x = Small().eval(), torch.ones(3, 4)
    events = traced(model, x)
    graph = capture(model, (x,), {}).graph
    assert graph is not None
    findings = Catalogue.load(("cuda",), read_flags(), torch_version="2.13").findings(events)
    annotate(graph, events, findings)
    save_graph(graph, tmp_path / name)
    return (tmp_path / name).read_text()


def test_hazards_are_coloured_in_the_drawing(tmp_path: Path) -> None:
    text = _drawn(tmp_path, "graph.dot")
    (line,) = [line for line in text.splitlines() if "#f2c14e" in line]
    assert line.startswith("scatter_add")


def test_svg(tmp_path: Path) -> None:
    if shutil.which("dot") is None:
        pytest.skip("graphviz is not installed")
    assert "<svg" in _drawn(tmp_path, "graph.svg")


def test_without_graphviz_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuditError, match="graphviz is missing: install it"):
        _drawn(tmp_path, "graph.svg")
    with pytest.raises(AuditError, match=r"drawn as \.svg or \.dot"):
        _drawn(tmp_path, "graph.png")
