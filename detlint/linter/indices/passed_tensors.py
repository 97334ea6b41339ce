"""Is what a helper works on a tensor, because that is what every caller passes?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import all_callers_give
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, BindingKind

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def is_surely_tensor(node: ast.expr, ctx: Context) -> bool:
    """Is an expression a tensor by everything that it may be? What stands under a word is an entry of a dictionary."""
    if isinstance(node, ast.Subscript) and isinstance(ctx.constant(node.slice), str):
        return False
    return ctx.is_tensor(node) and all(value.kind is not Kind.UNKNOWN for value in ctx.values(node))


def callers_pass_tensor(node: ast.expr, ctx: Context) -> bool:
    """`repeats`, or `repeats[0, :n]`, a parameter of which nothing else is known, and for which all pass tensors."""
    part = only_value(ctx.module, node) or node
    while isinstance(part, ast.Subscript):
        part = part.value
    bindings = ctx.module.definitions(part) if isinstance(part, ast.Name) else ()
    only = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    function = only.scope.node if only is not None else None
    if only is None or not isinstance(function, FUNCTIONS):
        return False
    return all_callers_give(function, only.name, ctx, is_surely_tensor)
