"""Does a test ask of a result no more than its form, and whether it is close to another? No last bit decides that."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.trial_runs import SHAPES
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, walk

_MAX_STEPS = 8
_CLOSE = frozenset(
    {"allclose", "approx", "assertAlmostEqual", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal"}
    | {"assert_close", "isclose"}
)
_GRADIENTS = frozenset({"backward", "grad"})
_EXACT = frozenset(
    {"array_equal", "array_equiv", "assertEqual", "assertTrue", "assert_array_equal", "assert_equal", "equal", "sha256"}
)
_KEEPS = frozenset({"step", "save"})
_FORMS = SHAPES | {"stride", "len", "requires_grad", "type"}
_TOLERANCES = frozenset({"abs", "abs_tol", "atol", "rel", "rel_tol", "rtol"})
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPUTES = ("torch.", "numpy.", "math.", "builtins.")


def is_only_tested_roughly(call: ast.Call, ctx: Context, *, gradients: bool = False) -> bool:
    """Return whether a test computes something and compares it with a tolerance, or asks for its form.

    `gradients`: it is those of what is computed that matter. They are found at whatever they are of, and so are not
    followed: an exact comparison of anything in the test may be theirs.
    """
    function = ctx.function(call)
    if function is None or not function.name.startswith("test") or not is_test_file(ctx.module):
        return False
    return _is_rough(call, ctx, _MAX_STEPS) or (gradients and _compares_gradients_roughly(function, ctx))


def _compares_gradients_roughly(test: FunctionNode, ctx: Context) -> bool:
    calls = [part for part in walk(test) if isinstance(part, ast.Call)]
    named = {identifier(part.func) for part in calls}
    if _CLOSE.isdisjoint(named) or _GRADIENTS.isdisjoint(named) or not (_EXACT | _KEEPS).isdisjoint(named):
        return False
    if any(identifier(part.func) in _CLOSE and not _allows_difference(part, ctx) for part in calls):
        return False
    asserted = (part.test for part in walk(test) if isinstance(part, ast.Assert))
    return not any(_compares_exactly(part) for condition in asserted for part in walk(condition))


def _compares_exactly(node: ast.AST) -> bool:
    """`a.grad == b.grad`, and not `a.grad.shape == a.shape`, nor the strides of the two."""
    if not isinstance(node, ast.Compare) or not any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
        return False
    return not all(_is_form(side) for side in (node.left, *node.comparators))


def _is_form(side: ast.expr) -> bool:
    if isinstance(side, ast.Call):
        return identifier(side.func) in _FORMS
    if isinstance(side, ast.Subscript):
        return _is_form(side.value)
    if isinstance(side, (ast.Tuple, ast.List)):
        return True
    return isinstance(side, (ast.Constant, ast.Attribute)) and getattr(side, "attr", "shape") in _FORMS


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
        return _allows_difference(call, ctx)
    computed = is_computed or any(name.startswith(_COMPUTES) for name in ctx.callees(call))
    return computed and not isinstance(ctx.parent(call), ast.Expr) and _is_rough(call, ctx, steps - 1)


def _allows_difference(comparison: ast.Call, ctx: Context) -> bool:
    tolerances = [word.value for word in comparison.keywords if word.arg in _TOLERANCES]
    return not tolerances or any(ctx.constant(tolerance) != 0 for tolerance in tolerances)


def _is_zero_asked_for(comparison: ast.Compare, ctx: Context) -> bool:
    """`(rows[1] == 0).all()`: a place to which nothing was added."""
    sides = [comparison.left, *comparison.comparators]
    return isinstance(comparison.ops[0], ast.Eq) and any(ctx.constant(side) == 0 for side in sides)
