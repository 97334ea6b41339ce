"""Reads of memory that nothing comes of: thrown away, meant to fail, only recorded, or looked at for their form."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.testcode import is_meant_to_fail
from detlint.linter.memory.forms import gives_form_alone
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def comes_to_nothing(reading: ast.expr, ctx: Context) -> bool:
    """Does nothing come out of a read but an error, the form of its result, or nothing yet?"""
    if is_meant_to_fail(reading, ctx.module) or _is_only_recorded(reading, ctx) or _is_thrown_away(reading, ctx):
        return True
    return gives_form_alone(reading, ctx)


def _is_thrown_away(reading: ast.expr, ctx: Context) -> bool:
    """`torch.add(memory, x)`, a statement of its own in a function, and `_ = attend(memory)`: nobody looks at it."""
    call = ctx.parent(reading) if isinstance(reading, ast.Attribute) else reading
    around = ctx.parent(call) if isinstance(call, ast.Call) else None
    ignored = isinstance(around, ast.Assign) and list(map(identifier, around.targets)) == ["_"]
    if not isinstance(call, ast.Call) or not (ignored or isinstance(around, ast.Expr)) or ctx.function(call) is None:
        return False
    names = set(ctx.callees(call))
    into = identifier(call.func).endswith("_") or any(word.arg in ("out", None) for word in call.keywords)
    return bool(names) and names <= ctx.inference.types.tensors and not into


def _is_only_recorded(reading: ast.expr, ctx: Context) -> bool:
    """`with torch.cuda.graph(graph): y = net(x)`: what is recorded runs when the graph is replayed."""
    withs = (around for around in ctx.ancestors(reading) if isinstance(around, ast.With))
    entered = (item.context_expr for around in withs for item in around.items)
    return any(isinstance(each, ast.Call) and "torch.cuda.graph" in ctx.callees(each) for each in entered)
