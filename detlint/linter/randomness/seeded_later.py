"""Does a program seed a library only behind a place, so that no seed reaches what is drawn there?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.may_use import may_use
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.reach import uses_of
from detlint.linter.randomness.seeding import Seed, Seeding
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier

# Functions between a call and what it leads to; behind more, nothing is known.
_MOST_FUNCTIONS = 16
_STILL_CALLED = frozenset({"staticmethod", "classmethod"})

_Place = tuple[Module, ast.AST]


def is_seeded_later(library: str, module: Module, node: ast.AST, seeding: Seeding) -> bool:
    """Return whether all seeds of a library come behind `node`, or behind a call in its file that leads there.

    `x = torch.rand(3)`, then `seed_all(0)`, or `train()`, which seeds inside.
    """
    seeds = seeding.of(library)
    return bool(seeds) and any(
        all(_is_behind(place, module, seed, seeding.program) for seed in seeds)
        for place in _leading_to(node, module, seeding.program)
    )


def _leading_to(node: ast.AST, module: Module, program: Program) -> Iterator[ast.AST]:
    """Yield a node, the calls in its file of the function that it stands in, and those that lead to these."""
    pending, seen = [node], set[FunctionNode]()
    for place in pending:  # grows on the way
        yield place
        function = module.index.function_at(place)
        if function is not None and function not in seen and len(seen) < _MOST_FUNCTIONS:
            seen.add(function)
            pending += [call for where, call in _calls(module, function, program)[0] if where is module]


def _is_behind(node: ast.AST, module: Module, seed: Seed, program: Program) -> bool:
    """Does every call that leads to a seed stand in the function of `node`, with no way from there to `node`?"""
    goal, flow = module.index.function_at(node), module.flow_at(node)
    found, seen = False, set[FunctionNode]()
    pending: list[_Place] = [(seed.module, seed.node)]
    for where, place in pending:  # grows on the way
        function = where.index.function_at(place)
        if where is module and function is goal:
            if place is node or flow.path(place, node):
                return False
            found = True
        elif function is None or len(seen) == _MOST_FUNCTIONS:
            return False
        elif function not in seen:
            seen.add(function)
            calls, all_of_them = _calls(where, function, program)
            if not all_of_them:
                return False
            pending += calls
    return found


def _calls(owner: Module, function: FunctionNode, program: Program) -> tuple[list[_Place], bool]:
    """Return where a program calls a function, and whether nothing else can.

    What calls methods of a class from elsewhere, or is handed a function, may do so at any time.
    """
    around = owner.index.class_at(function)
    makes = function.name == "__init__"
    name = around.name if makes and around is not None else function.name
    bases = owner.inference.external_bases(owner.inference.class_info(around)) if around is not None else ()
    closed = {identifier(each) for each in function.decorator_list} <= _STILL_CALLED
    closed &= set(bases) <= {"builtins.object"} and (makes or not name.startswith("__"))
    qualified = owner.qualified(function) if around is None else ""
    found: list[_Place] = []
    for module in program.modules:
        for use in uses_of(module, name) if around is not None or may_use(module, owner, function) else ():
            inside = module.index.function_at(use)
            names = module.inference.resolve(use) if qualified else ()
            if (names and qualified not in names) or (inside is not None and inside.name == name):
                continue
            call = module.index.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use:
                found.append((module, call))
            else:
                closed = False
    return found, closed
