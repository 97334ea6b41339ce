"""Which functions of the project hand a parameter of theirs to a seeder?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.origins import origins
from detlint.linter.randomness.seeding import Seed, place, seeds_in
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters

_DEPTH = 3


class SeedHelpers:
    """Answers for one linted file; remembers what it has read."""

    def __init__(self) -> None:
        self._seeds: dict[Module, tuple[Seed, ...]] = {}
        self._parameters: dict[tuple[FunctionNode, int], tuple[str, ...]] = {}

    def arguments(self, module: Module, call: ast.Call, depth: int = _DEPTH) -> Iterator[ast.expr]:
        """Yield the arguments of a call that the function it calls seeds with."""
        if depth == 0 or not (call.args or call.keywords):
            return
        for name in module.inference.callees(call):
            definition = module.project.definition(name)
            if definition is None:
                continue
            owner, function = definition
            if isinstance(function, FUNCTIONS):
                for parameter in self._seeding_parameters(owner, function, depth):
                    value = argument_of(function, parameter, call, skip_self=isinstance(call.func, ast.Attribute))
                    if value is not None:
                        yield value

    def _seeding_parameters(self, module: Module, function: FunctionNode, depth: int) -> tuple[str, ...]:
        known = self._parameters.get((function, depth))
        if known is None:
            self._parameters[function, depth] = ()  # a function that leads back to itself adds nothing
            known = tuple(dict.fromkeys(self._find_parameters(module, function, depth)))
            self._parameters[function, depth] = known
        return known

    def _find_parameters(self, module: Module, function: FunctionNode, depth: int) -> Iterator[str]:
        if module not in self._seeds:
            self._seeds[module] = tuple(seeds_in(module))
        inside = {node for node in ast.walk(function) if isinstance(node, ast.Call)}
        values = [seed.value for seed in self._seeds[module] if seed.node in inside and seed.value is not None]
        if depth > 1:
            for call in sorted(inside, key=place):
                values.extend(self.arguments(module, call, depth - 1))
        names = {parameter.arg for parameter, _ in parameters(function.args)}
        for value in values:
            for origin in origins(module, value, ()):
                if isinstance(origin.node, ast.Name) and origin.node.id in names:
                    yield origin.node.id
