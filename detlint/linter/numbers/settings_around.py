"""Are two computations made under two settings of one switch: `with fast(True)` and `with fast(False)`?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, identifier

# What is set around a computation and leaves its results as they are.
_LEAVING = frozenset({"set_grad_enabled", "inference_mode", "no_grad", "stream", "subTest", "record_function"})


def are_set_apart(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Does one switch stand around both, with other arguments? A switch around one of them only may do anything."""
    first, second = _switches(one, ctx), _switches(other, ctx)
    return any(second.get(name, said) != said for name, said in first.items())


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
