"""Draws that a program leads to in other files of its project: by calling a function, or by what it makes."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.never_taken import is_switched_off
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.frames import Frame
from detlint.linter.programs.training import guarded_by_mode
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.seeding import place, seeds_in
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import walk
from detlint.randomness import load_sources

# Functions that are looked into, the nearest first, and functions between a call of the program and the draw.
_MOST_FUNCTIONS = 64
_DEPTH = 1
# Methods that run without being named: what has them is made to be gone through, or called.
_UNNAMED = ("__init__", "__getitem__", "__iter__", "__call__")


@dataclass(frozen=True, slots=True, eq=False)
class LedDraw:
    """A call in a program's own file, and the draw of another file that it leads to, with the context of that."""

    call: ast.Call
    draw: Drawn
    context: Context


def led_draws(program: Program, ctx: Context) -> Iterator[LedDraw]:
    """Yield what the calls in a program's own file draw from global generators elsewhere, the nearest first.

    Only what is sure to be drawn there: under no condition, or one that the arguments decide.
    """
    drawing = _Drawing(program, ctx)
    own = sorted(ctx.module.index.of_type(ast.Call), key=place) if drawing.modules else ()
    pending = [_Path(call, call, ctx.module, None, 0) for call in own if program.runs(ctx.module, call)]
    seen: set[Hashable] = set()
    for path in pending:  # grows on the way
        for owner, function in _run_by(path.last, path.module):
            frame = Frame(function, path.last, path.frame)
            asked = (function, frame.literals())
            if owner is ctx.module or asked in seen or drawing.seeds(function, owner):
                continue
            if len(seen) == _MOST_FUNCTIONS:
                return
            seen.add(asked)
            context = drawing.context(owner)
            for draw in drawing.within(function, owner):
                if _is_sure(draw.node, frame, context) and matters(draw, context):
                    yield LedDraw(path.first, draw, context)
            if path.depth < _DEPTH:
                calls = (part for part in walk(function) if isinstance(part, ast.Call))
                inner = (part for part in calls if owner.index.function_at(part) is function)
                sure = (part for part in inner if _is_sure(part, frame, context))
                pending += [_Path(path.first, part, owner, frame, path.depth + 1) for part in sure]


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """A way from a call of the program, `first`, to a call in some file, which stands in the function of `frame`."""

    first: ast.Call
    last: ast.Call
    module: Module
    frame: Frame | None
    depth: int


class _Drawing:
    """The other files of a program that draw, and where they do."""

    def __init__(self, program: Program, ctx: Context) -> None:
        lasts = load_sources().draws.lasts
        others = (module for module in program.modules[1:] if not lasts.isdisjoint(module.calls))
        self.modules = frozenset(module for module in others if not is_test_file(module))
        self._ctx = ctx
        self._contexts: dict[Module, Context] = {}
        self._draws: dict[Module, dict[FunctionNode | None, list[Drawn]]] = {}
        self._seeding: dict[Module, set[FunctionNode | None]] = {}

    def context(self, module: Module) -> Context:
        if module not in self._contexts:
            self._contexts[module] = self._ctx.elsewhere(module)
        return self._contexts[module]

    def seeds(self, function: FunctionNode, module: Module) -> bool:
        """Return whether a function seeds what it draws from itself, as a constructor may."""
        if module not in self._seeding:
            calls = (seed.node for seed in seeds_in(module)) if module in self.modules else ()
            self._seeding[module] = {module.index.function_at(call) for call in calls}
        return function in self._seeding[module]

    def within(self, function: FunctionNode, module: Module) -> Sequence[Drawn]:
        """Return the draws of a function itself."""
        if module not in self._draws:
            found = self._draws[module] = {}
            for draw in global_draws(self.context(module)) if module in self.modules else ():
                found.setdefault(module.index.function_at(draw.node), []).append(draw)
        return self._draws[module].get(function, ())


def _run_by(call: ast.Call, module: Module) -> Iterator[tuple[Module, FunctionNode]]:
    """Yield the functions of the project that a call runs, or that run once somebody uses what it makes."""
    inference = module.inference
    yield from functions_called(inference, call)
    for name in inference.callees(call):
        owner, _, last = name.rpartition(".")
        info = inference.class_named(name)
        methods: tuple[str, ...] = ("__init__",) if inference.is_module_class(name) else _UNNAMED
        if info is None and last == "__call__" and inference.is_module_class(owner):
            info, methods = inference.class_named(owner), ("forward",)
        for method in methods if info is not None else ():
            yield from _method(info, method, module)


def _method(info: ClassInfo | None, name: str, module: Module) -> Iterator[tuple[Module, FunctionNode]]:
    for ancestor in module.inference.mro(info) if info is not None else ():
        if name in ancestor.methods:
            yield ancestor.module, ancestor.methods[name]
            return


def _is_sure(node: ast.AST, frame: Frame, ctx: Context) -> bool:
    """Does a call of the function get to a place in it, whatever the data?"""
    if guarded_by_mode(ctx.module, node) or is_switched_off(node, ctx) or _depends_on_luck(node, frame.function, ctx):
        return False
    return all(frame.truth(test) is holds for test, holds in ctx.module.index.conditions_around(node))


def _depends_on_luck(node: ast.AST, function: FunctionNode, ctx: Context) -> bool:
    """`augment and random.random() < 0.5`, or what is done where something failed."""
    child = node
    for parent in ctx.ancestors(node):
        if parent is function:
            return False
        if isinstance(parent, ast.ExceptHandler) or (isinstance(parent, ast.BoolOp) and child is not parent.values[0]):
            return True
        child = parent
    return False
