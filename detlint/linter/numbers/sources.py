"""What does a name or a view stand for? The expression that made it."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.written_here import kept_in, made_here, written_out
from detlint.linter.source.names import unpacked
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table


def made_as(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the expression that a name stands for, or None where there are several or it is a parameter."""
    if (kept := kept_in(ctx.module, node)) is not None:
        return written_out(ctx.module, kept)
    found = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    return made_here(ctx.module, found[0]) if len(found) == 1 else None


def source_of(node: ast.expr, ctx: Context, depth: int = 6) -> ast.expr:
    """Return what an expression is a view or another name of."""
    node = written_out(ctx.module, node)
    inner: ast.expr | None = None
    if isinstance(node, ast.Subscript):
        inner = node.value
    elif isinstance(node, ast.Call):
        inner = viewed(node, ctx)
    elif isinstance(node, ast.Name):
        made = [unpacked(each) or each.value for each in ctx.module.definitions(node)]
        inner = made[0] if len(made) == 1 else None
    return node if inner is None or depth == 0 else source_of(inner, ctx, depth - 1)


def viewed(call: ast.Call, ctx: Context) -> ast.expr | None:
    """Return `x` of `x.view(-1)` and of `torch.flip(x, [0])`."""
    function = call.func
    if identifier(function) not in rounding_table().keeping or not isinstance(function, ast.Attribute):
        return None
    if ctx.resolve(function.value):
        return call.args[0] if call.args else None
    return function.value
