"""Draws that a program leads to in other files of its project: by calling a function, or by what it makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.frames import Frame
from detlint.linter.programs.training import guarded_by_mode
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.switched_off import is_switched_off
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import walk
from detlint.randomness import load_sources

# Functions between a call of the program and the draw.
_DEPTH = 4
# Methods that run without being named: what has them is made to be gone through, or called.
_UNNAMED = ("__init__", "__getitem__", "__iter__", "__call__")


@dataclass(frozen=True, slots=True, eq=False)
class LedDraw:
    """A call in a program's own file, and the draw of another file that it leads to, with the context of that."""

    call: ast.Call
    draw: Drawn
    context: Context


def led_draws(program: Program, ctx: Context) -> Iterator[LedDraw]:
    """Yield what the calls in a program's own file draw from global generators elsewhere, in source order.

    Only what is sure to be drawn there: under no condition, or one that the arguments decide.
    """
    lasts = load_sources().draws.lasts
    others = (module for module in program.modules[1:] if not lasts.isdisjoint(module.calls))
    drawing = frozenset(module for module in others if not is_test_file(module))
    search = _Search(ctx, drawing)
    for call in ctx.module.index.of_type(ast.Call) if drawing else ():
        if program.runs(ctx.module, call):
            for context, draw in search.by(call, ctx.module, None, _DEPTH):
                yield LedDraw(call, draw, context)


_Found = tuple[tuple[Context, Drawn], ...]


class _Search:
    def __init__(self, ctx: Context, drawing: frozenset[Module]) -> None:
        self._ctx = ctx
        self._drawing = drawing
        self._contexts: dict[Module, Context] = {}
        self._draws: dict[Module, dict[FunctionNode | None, list[Drawn]]] = {}
        self._known: dict[object, _Found] = {}

    def by(self, call: ast.Call, module: Module, frame: Frame | None, steps: int) -> Iterator[tuple[Context, Drawn]]:
        """Yield what is drawn where a call leads in other files than the program's own."""
        for owner, function in _run_by(call, module):
            if owner is not self._ctx.module:
                yield from self._within(owner, Frame(function, call, frame), steps)

    def _within(self, owner: Module, frame: Frame, steps: int) -> _Found:
        key = (frame.function, frame.literals())
        if key not in self._known:
            self._known[key] = ()  # recursion draws nothing more
            self._known[key] = tuple(self._find(owner, frame, steps))
        return self._known[key]

    def _find(self, owner: Module, frame: Frame, steps: int) -> Iterator[tuple[Context, Drawn]]:
        context = self._context(owner)
        for draw in self._draws_of(owner).get(frame.function, ()):
            if _is_sure(draw.node, frame, context) and matters(draw, context):
                yield context, draw
        calls = [part for part in walk(frame.function) if isinstance(part, ast.Call)] if steps else []
        for call in calls:
            if owner.index.function_at(call) is frame.function and _is_sure(call, frame, context):
                yield from self.by(call, owner, frame, steps - 1)

    def _context(self, module: Module) -> Context:
        if module not in self._contexts:
            self._contexts[module] = self._ctx.elsewhere(module)
        return self._contexts[module]

    def _draws_of(self, module: Module) -> dict[FunctionNode | None, list[Drawn]]:
        if module not in self._draws:
            found = self._draws[module] = {}
            for draw in global_draws(self._context(module)) if module in self._drawing else ():
                found.setdefault(module.index.function_at(draw.node), []).append(draw)
        return self._draws[module]


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
    if guarded_by_mode(ctx.module, node) or is_switched_off(node, ctx):
        return False
    return all(frame.truth(test) is holds for test, holds in ctx.module.index.conditions_around(node))
