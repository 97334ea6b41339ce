"""Does a test ask of a result no more than its form, and whether it is close to another? No last bit decides that."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.trial_runs import SHAPES
from detlint.linter.source.nodes import identifier

_MAX_STEPS = 8
_CLOSE = frozenset(
    {"allclose", "approx", "assertAlmostEqual", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal"}
    | {"assert_close", "isclose"}
)
_TOLERANCES = frozenset({"abs", "abs_tol", "atol", "rel", "rel_tol", "rtol"})
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPUTES = ("torch.", "numpy.", "math.", "builtins.")


def is_only_tested_roughly(call: ast.Call, ctx: Context) -> bool:
    """Return whether a test computes something and compares it with a tolerance, or asks for its form."""
    function = ctx.function(call)
    if function is None or not function.name.startswith("test") or not is_test_file(ctx.module):
        return False
    return _is_rough(call, ctx, _MAX_STEPS)


def _is_rough(node: ast.expr, ctx: Context, steps: int) -> bool:
    """Is all that becomes of a value rough? Nothing where nothing does: something may have been written in place."""
    parent = ctx.parent(node)
    if steps == 0 or parent is None:
        return False
    if isinstance(parent, ast.Attribute):
        return parent.attr in SHAPES or _is_method_rough(parent, ctx, steps)
    if isinstance(parent, ast.keyword):
        parent = ctx.parent(parent)
    if isinstance(parent, ast.Call):
        return _is_argument_rough(parent, ctx, steps)
    if isinstance(parent, ast.Compare):
        return all(isinstance(each, _ORDERED) for each in parent.ops) or _is_zero_asked_for(parent, ctx)
    if isinstance(parent, ast.Assign):
        binding = ctx.binding(node)
        uses = tuple(ctx.flow(node).uses(binding)) if binding is not None else ()
        return bool(uses) and all(_is_rough(use, ctx, steps - 1) for use in uses)
    computed = isinstance(parent, (ast.BinOp, ast.UnaryOp))
    computed = computed or (isinstance(parent, ast.Subscript) and parent.value is node)
    return computed and isinstance(parent, ast.expr) and _is_rough(parent, ctx, steps - 1)


def _is_method_rough(method: ast.Attribute, ctx: Context, steps: int) -> bool:
    call = ctx.parent(method)
    if not isinstance(call, ast.Call) or call.func is not method or method.attr.endswith("_"):
        return False
    return method.attr != "backward" and _is_argument_rough(call, ctx, steps, is_computed=True)


def _is_argument_rough(call: ast.Call, ctx: Context, steps: int, *, is_computed: bool = False) -> bool:
    if identifier(call.func) in _CLOSE:
        tolerances = [word.value for word in call.keywords if word.arg in _TOLERANCES]
        return not tolerances or any(ctx.constant(tolerance) != 0 for tolerance in tolerances)
    computed = is_computed or any(name.startswith(_COMPUTES) for name in ctx.callees(call))
    return computed and not isinstance(ctx.parent(call), ast.Expr) and _is_rough(call, ctx, steps - 1)


def _is_zero_asked_for(comparison: ast.Compare, ctx: Context) -> bool:
    """`(rows[1] == 0).all()`: a place to which nothing was added."""
    sides = [comparison.left, *comparison.comparators]
    return isinstance(comparison.ops[0], ast.Eq) and any(ctx.constant(side) == 0 for side in sides)
