"""Tensors that optimizers have changed: two of other classes that do the same round differently on their way."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.taken import taken
from detlint.linter.numbers.sources import made_as
from detlint.linter.source.nodes import identifier, walk

_STEP = "step"
_GROUPS = "param_groups"
# Loops and views between a tensor and the optimizer that it was given to.
_MOST_VIEWS = 8


def are_trained_apart(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Return whether optimizers of two classes have made steps on two tensors: `Adam([w])` and `FusedAdam([v])`."""
    steps = [call for call in ctx.module.index.calls_by_name.get(_STEP, ()) if _is_before(call, left, ctx)]
    if not steps:
        return False
    made = [call for step in steps if (call := _made(step, ctx)) is not None]
    ours, theirs = (_optimizer_of(side, made, ctx) for side in (left, right))
    return ours is not None and theirs is not None and identifier(ours.func) != identifier(theirs.func)


def _is_before(call: ast.Call, node: ast.expr, ctx: Context) -> bool:
    return call.lineno < node.lineno and ctx.function(call) is ctx.function(node)


def _made(step: ast.Call, ctx: Context) -> ast.Call | None:
    """Return `Adam([w])` behind `optimizer.step()`."""
    made = made_as(step.func.value, ctx) if isinstance(step.func, ast.Attribute) else None
    return made if isinstance(made, ast.Call) else None


def _optimizer_of(node: ast.expr, made: list[ast.Call], ctx: Context) -> ast.Call | None:
    """Return the one of some optimizers that was given a tensor, or whose groups it is taken from."""
    for part in _sources(node, ctx):
        if isinstance(part, ast.Attribute) and part.attr == _GROUPS:
            maker = made_as(part.value, ctx)
            return next((call for call in made if call is maker), None)
        text = ast.unparse(part)
        for call in made:
            given = (each for each in walk(call.args[0]) if isinstance(each, ast.expr)) if call.args else ()
            if any(ast.unparse(each) == text for each in given):
                return call
    return None


def _sources(node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield an expression and what it is taken from: `p`, `group["params"]`, `group`, `optimizer.param_groups`."""
    for _ in range(_MOST_VIEWS):
        yield node
        bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
        elements = [element for binding in bindings for element in taken(ctx.module, binding)]
        if len(elements) == 1:
            node = elements[0]
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        else:
            return
