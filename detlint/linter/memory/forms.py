"""Is a result asked for its form alone: `torch.empty(3, 4).sum(0).shape`, `(torch.empty(()) < 0).dtype`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, identifier
from detlint.linter.tables.memory import memory_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_NAMES = 3
# The form of what these give depends on what they are given.
SIZED_BY_VALUES = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount")


def gives_form_alone(result: ast.expr, ctx: Context, names: int = _MAX_NAMES) -> bool:
    """Return whether nothing but the form is looked at of a result, and of what is computed of it, also by name."""
    parent, table = ctx.parent(result), memory_table()
    if not _keeps_form(result):
        return False
    if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return gives_form_alone(parent, ctx, names)
    if isinstance(parent, ast.IfExp):
        return parent.test is not result and gives_form_alone(parent, ctx, names)
    if isinstance(parent, ast.Attribute):
        return parent.attr in table.methods["form"] or _is_method_of_form(parent, ctx, names)
    if isinstance(parent, ast.Call) and parent.func is result:  # the method itself: `memory.sum` of `memory.sum(0)`
        return gives_form_alone(parent, ctx, names)
    if isinstance(parent, ast.Call):
        called = set(ctx.callees(parent))
        computes = bool(called) and called <= ctx.inference.types.tensors and bool(arguments_of(parent))
        asks = "builtins.len" in called or not table.functions["like"].isdisjoint(called)
        return asks or (computes and gives_form_alone(parent, ctx, names))
    return isinstance(parent, ast.Assign) and names > 0 and _is_named_for_form(result, ctx, names - 1)


def _keeps_form(result: ast.expr) -> bool:
    """Not so `x[memory]`, `memory.nonzero()`, as long as what is there says, or `memory.add_(1)`, in place."""
    called = identifier(result.func if isinstance(result, ast.Call) else result)
    in_place = isinstance(result, (ast.Attribute, ast.Call)) and called.endswith("_")
    return not (isinstance(result, ast.Subscript) or in_place or called in SIZED_BY_VALUES)


def _is_method_of_form(method: ast.Attribute, ctx: Context, names: int) -> bool:
    """`memory.sum(0).mean(1).shape`."""
    call = ctx.parent(method)
    computes = not method.attr.endswith("_") and f"torch.Tensor.{method.attr}" in ctx.inference.types.tensors
    return computes and isinstance(call, ast.Call) and call.func is method and gives_form_alone(call, ctx, names)


def _is_named_for_form(result: ast.expr, ctx: Context, names: int) -> bool:
    """`total = memory.sum(0)` in a function that only asks for `total.shape`."""
    binding = ctx.binding(result)
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = ctx.flow(result).uses(binding)
    return bool(uses) and all(gives_form_alone(use, ctx, names) for use in uses)
