"""Does something say that an index names a place more than once: who made it, or its name?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import given_by_callers
from detlint.linter.analysis.only_values import only_value
from detlint.linter.indices.distinct_indices import FLATTENING, is_inverse, is_later_dimension
from detlint.linter.indices.positions import TENSORS
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 8
# What sums the members of groups, in whatever library.
_SUMMING = re.compile(r"scatter|segment|index_add|index_reduce")
# Draw with replacement, copy, or give each of many the number of the one that it belongs to.
_REPEATING = frozenset({"random.choices", "numpy.random.choice", "numpy.random.randint"}) | frozenset(
    f"torch.{owner}{name}"
    for name in ("bucketize", "floor_divide", "multinomial", "randint", "repeat_interleave", "searchsorted", "tile")
    for owner in ("", "Tensor.")
)
# Give the place of one entry in each row.
_BEST = ("argmax", "argmin")


def may_repeat(index: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Return whether an index is drawn, flattened, a part of a table of pairs, or named after what many belong to.

    The index of a helper is one where a caller in the project passes one.
    """
    if steps == 0:
        return False
    if gradient_table().repeating.search(identifier(index)) or is_inverse(index, ctx) or _groups(index, ctx):
        return True
    made = only_value(ctx.module, index)
    if made is not None:
        return may_repeat(made, ctx, steps - 1)
    if isinstance(index, ast.Name):
        return _is_passed_repeating(index, ctx, steps // 2)
    if isinstance(index, ast.Subscript):
        return is_later_dimension(index, ctx) or may_repeat(index.value, ctx, steps - 1)
    if isinstance(index, ast.BinOp):
        return isinstance(index.op, (ast.FloorDiv, ast.Mod))
    if not isinstance(index, ast.Call):
        return False
    names = ctx.callees(index)
    if not _REPEATING.isdisjoint(names) or _is_best_of_rows(index, ctx):
        return True
    if not TENSORS.isdisjoint(names):
        return bool(index.args) and may_repeat(index.args[0], ctx, steps - 1)
    if not isinstance(index.func, ast.Attribute):
        return False
    return index.func.attr in FLATTENING or may_repeat(index.func.value, ctx, steps - 1)


def _is_best_of_rows(call: ast.Call, ctx: Context) -> bool:
    """`scores.argmax(dim=1)`: two rows may have their best in one place. Without a dimension it is one place alone."""
    tensors = int(ctx.callees(call)[:1] in (("torch.argmax",), ("torch.argmin",)))  # that come before the dimension
    return identifier(call.func) in _BEST and len(call.args) + len(call.keywords) > tensors


def _groups(index: ast.expr, ctx: Context) -> bool:
    """Does the function scatter by the same index? `sums = scatter(x, index)`, then `sums.index_select(0, index)`."""
    function = ctx.function(index)
    if not isinstance(index, ast.Name) or function is None:
        return False
    calls = (call for call in walk(function) if isinstance(call, ast.Call) and _SUMMING.search(identifier(call.func)))
    given = (only_value(ctx.module, one) or one for call in calls for one in arguments_of(call))
    return any(isinstance(part, ast.Name) and part.id == index.id for one in given for part in walk(one))


def _is_passed_repeating(parameter: ast.Name, ctx: Context, steps: int) -> bool:
    return any(
        given is not None and may_repeat(*given, steps)
        for binding in ctx.module.definitions(parameter)
        if binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS)
        for given in given_by_callers(binding.scope.node, binding.name, ctx)
    )
