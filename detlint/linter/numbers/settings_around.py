"""Are two computations made under two settings of one switch: `with fast(True)` and `with fast(False)`?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, identifier
from detlint.linter.tables.rounding import rounding_table

# What is set around a computation and leaves its results as they are.
_LEAVING = frozenset({"set_grad_enabled", "inference_mode", "no_grad", "stream", "subTest", "record_function"})


def are_set_apart(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Does one switch stand around both, with other arguments? Around one of them, one that picks kernels does."""
    first, second = _switches(one, ctx), _switches(other, ctx)
    apart = any(second.get(name, said) != said for name, said in first.items())
    return apart or _kernels_picked(one, ctx) != _kernels_picked(other, ctx)


def _kernels_picked(node: ast.expr, ctx: Context) -> set[str]:
    """Return the `with torch.backends.cudnn.flags(enabled=False)` and their like around a node."""
    items = (item for around in ctx.ancestors(node) if isinstance(around, ast.With) for item in around.items)
    calls = (item.context_expr for item in items if isinstance(item.context_expr, ast.Call))
    return {ast.unparse(call) for call in calls if not rounding_table().switches.isdisjoint(ctx.callees(call))}


def _switches(node: ast.expr, ctx: Context) -> dict[str, list[str]]:
    """Return what the `with` statements around a node call, and what they tell it, the innermost of each name."""
    found: dict[str, list[str]] = {}
    for around in ctx.ancestors(node):
        if isinstance(around, FUNCTIONS):
            break
        for item in reversed(around.items) if isinstance(around, (ast.With, ast.AsyncWith)) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and item.optional_vars is None and identifier(call.func) not in _LEAVING:
                found.setdefault(ast.unparse(call.func), [ast.unparse(part) for part in arguments_of(call)])
    return found
