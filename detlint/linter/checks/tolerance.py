"""Comparisons within tolerances that are finer than the compared numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.computed import is_computed
from detlint.linter.context import Call, Context
from detlint.linter.names import unpacked
from detlint.linter.precision import EPSILON, precision
from detlint.linter.registry import check


@check("DET502")
def tolerance_below_precision(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where a tolerance or the dtype is not known, where both tolerances are zero on purpose, and in denials."""
    negation = ctx.parent(call.node)
    if isinstance(negation, ast.UnaryOp) and isinstance(negation.op, ast.Not):
        return  # that two results differ is shown best by a fine tolerance
    relative, absolute = (ctx.constant(call.argument(name).value) for name in ("rtol", "atol"))
    if not isinstance(relative, (int, float)) or not isinstance(absolute, (int, float)):
        return
    if relative == 0 and absolute == 0:
        return
    sides = [call.argument(parameter.name).value for parameter in call.trigger.parameters[:2]]
    if call.is_method and isinstance(call.node.func, ast.Attribute):
        sides = [call.node.func.value, sides[0]]
    dtypes = [dtype for side in sides if side is not None and (dtype := precision(ctx.module, side)) is not None]
    if not dtypes or not any(side is not None and _is_worked_out(side, ctx) for side in sides):
        return
    coarsest = max(dtypes, key=lambda dtype: EPSILON[dtype])
    if relative + absolute < EPSILON[coarsest] / 2:
        yield ctx.finding(
            call.node,
            call=call.name.rpartition(".")[2],
            tolerance=f"rtol={relative:g}, atol={absolute:g}",
            dtype=coarsest,
            eps=f"{EPSILON[coarsest]:g}",
        )


def _is_worked_out(side: ast.expr, ctx: Context) -> bool:
    """Return whether a side was computed, and is no copy or selection that keeps the bits of its dtype."""
    made = [unpacked(binding) for binding in ctx.module.definitions(side)] if isinstance(side, ast.Name) else [side]
    return is_computed(ctx.module, side) or any(isinstance(value, ast.BinOp) for value in made)
