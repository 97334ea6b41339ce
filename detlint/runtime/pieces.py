"""The graphs that torch.compile makes of a model, and the smallest part of one that departs when it is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import fx

from detlint.runtime.copies import Copier
from detlint.runtime.events import Phase
from detlint.runtime.generators import seed_generators
from detlint.runtime.measure import difference

if TYPE_CHECKING:
    from detlint.runtime.compiling import Compiler
    from detlint.runtime.passes import Case, Runner
    from detlint.runtime.report import Difference

Values: TypeAlias = Mapping[fx.Node, Any]
Sides: TypeAlias = Callable[[Callable[..., Any], Callable[..., Any]], tuple[Sequence[Any], Sequence[Any]]]
"""Runs the eager and the compiled form of a part as it wants, and returns the two results to compare."""

RERUNS: Final = 20
"""How often a compiled part runs again where runs differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One graph, and what went into it in one call."""

    module: fx.GraphModule
    inputs: tuple[Any, ...]
    phase: Phase


def captured(runner: Runner, case: Case, *, aten: bool) -> tuple[tuple[Piece, ...], dict[str, torch.Tensor]]:
    """Let torch.compile make graphs and run them with eager kernels; return each call of one, and the results.

    Graphs are as Dynamo sees them, of functions of torch; or `aten`: as AOTAutograd hands them to compilers, of
    aten operators, forward and backward. Both are the programs that backends "eager" and "aot_eager" run.
    """
    from detlint.runtime.compiling import Compiler

    collector = _Collector(case.modules)
    with Compiler(collector.aten() if aten else collector.backend).applied(case.model) as compiled:
        results = runner.run_untraced(replace(case, model=compiled))
    return tuple(collector.pieces), results


class _Collector:
    """A backend that runs graphs as they are and keeps them with their inputs, of which parameters are not copied."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._parameters = {tensor.data_ptr() for root in modules for tensor in root.parameters()}
        self.pieces: list[Piece] = []

    def backend(self, module: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        return self._recorded(module, Phase.FORWARD)

    def aten(self) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch._aot_autograd.utils import make_boxed_func

        def compiler(phase: Phase) -> Callable[..., Any]:
            return lambda module, examples: make_boxed_func(self._recorded(module, phase))

        backend: Callable[..., Any] = aot_autograd(
            fw_compiler=compiler(Phase.FORWARD), bw_compiler=compiler(Phase.BACKWARD)
        )
        return backend

    def _recorded(self, module: fx.GraphModule, phase: Phase) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            self.pieces.append(Piece(module, tuple(map(self._kept, inputs)), phase))
            return module(*inputs)

        return run

    def _kept(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.data_ptr() in self._parameters:
            return value
        return Copier().tensor(value.detach())


@dataclass(frozen=True, slots=True, eq=False)
class Departure:
    """The first operator of a graph whose compiled form gives other bits, found on the smallest prefix that does.

    `group` are the operators that depart when nothing else is compiled with them, as few as were found, `node`
    among them; empty where it takes the whole prefix. `difference` is that of the node's value.
    """

    piece: Piece
    node: fx.Node
    group: tuple[fx.Node, ...]
    difference: Difference

    @property
    def alone(self) -> bool:
        """Does the operator depart when it is compiled alone?"""
        return len(self.group) == 1


class Search:
    """Compiles parts of one graph. A part runs on the values that eager kernels compute for its inputs.

    Differences that are `passed_over` do not count.
    """

    def __init__(
        self,
        piece: Piece,
        seed: int,
        sides: Sides | None = None,
        passed_over: Callable[[torch.Tensor, torch.Tensor], bool] | None = None,
    ) -> None:
        self._piece = piece
        self._seed = seed
        self._sides = sides or self._once
        self._passed_over = passed_over or (lambda one, two: False)
        self._steps = _steps(piece.module)

    def smallest(self, compiler: Compiler) -> Departure | None:
        """Bisect for the first operator that departs, then for what must be compiled with it; None: none departs.

        Compiles about twice the logarithm of the number of operators.
        """
        last = _bisect(0, len(self._steps), lambda stop: bool(self._departing(range(stop), compiler)))
        if last is None:
            return None
        found = self._departing(range(last), compiler)
        node = next(iter(found))
        place = next(place for place, step in enumerate(self._steps) if node in step)
        group: Sequence[int] = ()
        if place == last - 1:
            length = _bisect(
                0, last, lambda length: bool(self._departing(self._towards(place, length), compiler)), least_first=True
            )
            group = () if length is None else self._towards(place, length)
        return Departure(self._piece, self._steps[place][0], tuple(self._steps[step][0] for step in group), found[node])

    def departs(self, departure: Departure, compiler: Compiler) -> bool:
        """Does what was found depart with another compiler too?"""
        return bool(self._departing(self._places(departure), compiler))

    def part(self, departure: Departure) -> tuple[fx.GraphModule, tuple[Any, ...]]:
        """Return the group of a departure as a graph, and what it runs on."""
        module, inputs, _ = self._cut(self._places(departure))
        return module, tuple(inputs)

    def _places(self, departure: Departure) -> list[int]:
        first = {step[0]: place for place, step in enumerate(self._steps)}
        return [first[node] for node in departure.group]

    def _cut(self, places: Sequence[int]) -> tuple[fx.GraphModule, list[Any], list[fx.Node]]:
        """Make a graph of some steps; return it, the values that it takes, and the nodes whose values it returns."""
        module, read, given = cut(self._piece.module, [node for place in places for node in self._steps[place]])
        values = self._values(places[0]) if given else {}
        return module, [values[node] for node in read] if given else [], given

    def _towards(self, place: int, length: int) -> list[int]:
        """Return, of that many steps up to one, those that lead to it."""
        wanted, chosen = {self._steps[place][0]}, []
        for step in range(place, place - length, -1):
            if not wanted.isdisjoint(self._steps[step]):
                chosen.append(step)
                wanted.update(source for node in self._steps[step] for source in node.all_input_nodes)
        return chosen[::-1]

    def _departing(self, places: Sequence[int], compiler: Compiler) -> dict[fx.Node, Difference]:
        """Compile some steps and return the values that differ, in order."""
        module, inputs, given = self._cut(places)
        if not given:
            return {}

        def fresh(function: Callable[..., Any]) -> Callable[[], Any]:
            def run() -> Any:
                seed_generators(self._seed)
                return function(*Copier().tree(inputs))

            return run

        with torch.no_grad(), compiler.applied(module) as compiled:
            one, two = self._sides(fresh(module), fresh(compiled))
        return {
            node: item
            for node, first, second in zip(given, one, two, strict=True)
            if isinstance(first, torch.Tensor)
            and isinstance(second, torch.Tensor)
            and (item := difference(node.name, first, second)) is not None
            and not self._passed_over(first, second)
        }

    def _values(self, start: int) -> Values:
        """Return the inputs of the graph and all values that steps before `start` give to later ones."""
        holders = [node for node in self._piece.module.graph.nodes if node.op == "placeholder"]
        values = dict(zip(holders, self._piece.inputs, strict=True))
        module, read, given = cut(self._piece.module, [node for step in self._steps[:start] for node in step])
        seed_generators(self._seed)
        with torch.no_grad():
            return {**values, **dict(zip(given, module(*Copier().tree([values[node] for node in read])), strict=True))}

    @staticmethod
    def _once(eager: Callable[..., Any], compiled: Callable[..., Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        return eager(), compiled()


def reruns(eager: Callable[..., Any], compiled: Callable[..., Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Run the compiled form again until it gives other bits than the first time."""
    first = second = compiled()
    for _ in range(RERUNS):
        second = compiled()
        if any(
            isinstance(a, torch.Tensor) and difference("", a, b) is not None for a, b in zip(first, second, strict=True)
        ):
            break
    return first, second


def cut(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> tuple[fx.GraphModule, list[fx.Node], list[fx.Node]]:
    """Make a graph of some nodes of another one, in their order.

    Returns the graph, the nodes whose values it takes, and the nodes whose values it returns: those that others
    read.
    """
    inside = set(nodes)
    sources = dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside)
    read = [node for node in sources if node.op != "get_attr"]
    given = [node for node in nodes if any(user not in inside for user in node.users)]
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {node: graph.placeholder(node.name) for node in read}
    for node in [source for source in sources if source.op == "get_attr"] + list(nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in given))
    return fx.GraphModule(module, graph), read, given


def _steps(module: fx.GraphModule) -> list[list[fx.Node]]:
    """Split a graph into operators, each with the nodes that take its results apart."""
    steps: dict[fx.Node, list[fx.Node]] = {}
    owners: dict[object, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op.startswith("call_"):
            owners[node] = owners.get(_taken_apart(node), node)
            steps.setdefault(owners[node], []).append(node)
    return list(steps.values())


def _taken_apart(node: fx.Node) -> object:
    """Return the node that gives several results, of which this one takes some."""
    if node.target is not operator.getitem or not isinstance(source := node.args[0], fx.Node):
        return None
    indexed = isinstance(source.meta.get("val", source.meta.get("example_value")), torch.Tensor)
    return None if indexed else source


def _bisect(low: int, high: int, holds: Callable[[int], bool], *, least_first: bool = False) -> int | None:
    """Return the smallest number above `low` and up to `high` for which something holds; None if not for `high`.

    It is taken to hold for all greater numbers too. `least_first` asks for the smallest one at once.
    """
    if least_first and low + 1 <= high and holds(low + 1):
        return low + 1
    if not holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
