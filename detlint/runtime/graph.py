"""A captured graph whose nodes say what ran there, what can differ and what did."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from torch._ops import OpOverload
from torch.fx.passes.graph_drawer import FxGraphDrawer

from detlint.errors import AuditError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torch import fx

    from detlint.findings import Finding
    from detlint.runtime.events import OpEvent

_NOTE: Final = "detlint"
_DRAWN: Final = {".svg": "svg", ".dot": "raw"}
"""Endings of files, and what pydot calls such a format."""
_COLORS: Final = {"hazard": "#f2c14e", "divergence": "#e4572e"}


@dataclass(frozen=True, slots=True)
class NodeNote:
    """What is known about a node: the operators it ran, hazards among them, and whether runs part here."""

    events: tuple[OpEvent, ...] = ()
    hazards: tuple[Finding, ...] = ()
    diverges: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each thing a reader of the graph should know."""
        hazards = tuple(f"{finding.code} {finding.message}" for finding in self.hazards)
        return ("runs part here", *hazards) if self.diverges else hazards


def annotate(
    graph: fx.GraphModule,
    events: Iterable[OpEvent],
    findings: Iterable[Finding] = (),
    first_divergence: OpEvent | None = None,
) -> int:
    """Write a `NodeNote` to `meta["detlint"]` of every node that an event belongs to, and show it in the code.

    Returns how many events found no node, as in modules that were captured as a whole.
    """
    placed, lost = _place(graph, events)
    by_place: dict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_place[finding.op, finding.module, finding.location.path, finding.location.line].append(finding)
    for node, own in placed.items():
        hazards: dict[Finding, None] = {}
        for event in own:
            if event.source is not None:
                place = (event.op, event.module, event.source.path, event.source.line)
                hazards.update(dict.fromkeys(by_place[place]))
        node.meta[_NOTE] = NodeNote(tuple(own), tuple(hazards), first_divergence in own)
    graph.graph.on_generate_code(lambda _: lambda body: _commented(graph, body))
    graph.recompile()
    return lost


def note(node: fx.Node) -> NodeNote:
    """What is known about a node; an empty note where nothing is."""
    found = node.meta.get(_NOTE)
    return found if isinstance(found, NodeNote) else NodeNote()


def check_drawable(path: Path) -> None:
    """Make sure, before anything runs, that a graph can be drawn to this file.

    Raises:
        AuditError: pydot or graphviz is missing, or the ending is none that is drawn; says what to do.
    """
    if path.suffix not in _DRAWN:
        raise AuditError(f"{path}: a graph is drawn as {' or '.join(_DRAWN)}")
    if find_spec("pydot") is None:
        raise AuditError(f"{path}: the graph cannot be drawn: pydot is missing; pip install pydot")
    if path.suffix != ".dot" and shutil.which("dot") is None:
        reason = "graphviz is missing: install it so that `dot` runs, or write a .dot file"
        raise AuditError(f"{path}: the graph cannot be drawn: {reason}")


def save_graph(graph: fx.GraphModule, path: Path) -> None:
    """Draw the graph with torch.fx's own drawer, hazards in yellow, the divergence in red; `.svg` or `.dot`.

    Raises:
        AuditError: it cannot be drawn, see `check_drawable`, or not be written.
    """
    check_drawable(path)
    drawing = FxGraphDrawer(graph, path.stem).get_dot_graph()
    for node in graph.graph.nodes:
        found = note(node)
        if found.lines:
            # The drawer returns pydot's nodes, whose setters pydot makes up at run time.
            for drawn in drawing.get_node(node.name):
                drawn.set("fillcolor", _COLORS["divergence" if found.diverges else "hazard"])
                drawn.set("tooltip", "; ".join(found.lines))
    try:
        drawing.write(str(path), format=_DRAWN[path.suffix])
    except (OSError, AssertionError) as error:
        raise AuditError(f"{path}: the graph cannot be drawn: {error}") from None


def _place(graph: fx.GraphModule, events: Iterable[OpEvent]) -> tuple[dict[fx.Node, list[OpEvent]], int]:
    """Give each event its node: the same operator of the module in turn, or one of the same line, or the module."""
    nodes = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    has_modules = any("nn_module_stack" in node.meta for node in nodes)
    by_operator: dict[tuple[str, str], list[fx.Node]] = defaultdict(list)
    by_module: dict[str, list[fx.Node]] = defaultdict(list)
    for node in nodes:
        module = _module(node)
        by_operator[module, _name(node)].append(node)
        by_module[module].append(node)
    placed: dict[fx.Node, list[OpEvent]] = defaultdict(list)
    lost = 0
    for event in events:
        module = event.module if has_modules else ""
        own = by_operator[module, _base(event.name)]
        node = own.pop(0) if own else _nearest(by_module, module, event)
        if node is None:
            lost += 1
        else:
            placed[node].append(event)
    return placed, lost


def _nearest(by_module: dict[str, list[fx.Node]], module: str, event: OpEvent) -> fx.Node | None:
    """A node of the module at the event's line, the only node of the module, or the call of a module around it."""
    nodes = by_module.get(module, [])
    line = None if event.source is None else f'File "{event.source.path}", line {event.source.line},'
    here = [node for node in nodes if line is not None and line in (node.stack_trace or "")]
    alike = [node for node in here if _name(node) in _base(event.name)]
    for found in (alike, here, nodes if len(nodes) == 1 else []):
        if found:
            return found[0]
    while module:
        module = module.rpartition(".")[0]
        for node in by_module.get(module, ()):
            if node.op == "call_module" and f"{event.module}.".startswith(f"{node.target}."):
                return node
    return None


def _module(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    return str(path)


def _name(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload):
        return _base(node.target._schema.name)
    return _base(node.target if isinstance(node.target, str) else node.target.__name__)


def _base(name: str) -> str:
    """`aten::index_put_`, `aten.index_put_` and the method `index_put` are one operator in a graph."""
    return re.split(r"[:.]", name)[-1].rstrip("_")


def _commented(graph: fx.GraphModule, body: Sequence[str]) -> list[str]:
    notes = {node.name: note(node).lines for node in graph.graph.nodes}
    commented: list[str] = []
    for line in body:
        name = line.partition(" ")[0].rstrip(":")
        commented += [f"# {text}\n" for text in notes.get(name, ())]
        commented.append(line)
    return commented
