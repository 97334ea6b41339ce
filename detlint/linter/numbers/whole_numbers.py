"""Are numbers that are added up whole ones, so that each order of adding them gives the same bits?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import all_callers_give
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.gradients.provenance import without_gradient_dtype
from detlint.linter.gradients.writes import written_into
from detlint.linter.source.names import FUNCTIONS, BindingKind, unpacked
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Calls that an addend is followed back through.
_MOST_CALLS = 2
_MAX_STEPS = 4
# Another dtype for the same numbers.
_CASTS = frozenset({"float", "double", "long", "int"})
_MOVES = frozenset({"to", "cuda", "type", "type_as"})
# What makes whole numbers of whole numbers.
_KEEPING = (ast.Add, ast.Sub, ast.Mult)
_COMPARING = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isin", "isnan", "isfinite", "logical_and", "logical_or"})
_VIEWS = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "contiguous"})


def are_counted(values: ast.expr | None, ctx: Context, calls: int = _MOST_CALLS) -> bool:
    """Sums of whole numbers are exact, in whatever order they are added: of ones, or of zeros partly set to one.

    What a function adds up for its callers is counted where all of them pass such numbers.
    """
    if values is None:
        return False
    known = [value.node for value in ctx.values(values) if value.node is not None]
    made: list[ast.AST | None] = [*known] or [only_value(ctx.module, values)]
    written = written_into(values, ctx) if isinstance(values, ast.Name) else ()
    return (
        bool(made)
        and all(
            _are_passed_counted(node, ctx, calls) if isinstance(node, ast.arg) else _is_whole(node, ctx, calls)
            for node in made
        )
        and all(ctx.constant(node) in (0, 1) for node in written)
    )


def _are_passed_counted(parameter: ast.arg, ctx: Context, calls: int) -> bool:
    function = ctx.parent(ctx.parent(parameter) or parameter)
    if calls == 0 or not isinstance(function, FUNCTIONS):
        return False
    return all_callers_give(function, parameter.arg, ctx, lambda given, inside: are_counted(given, inside, calls - 1))


def _is_whole(node: ast.AST | None, ctx: Context, calls: int = _MOST_CALLS) -> bool:
    """`torch.ones(n).to(device)`, `valid.new_zeros(n)`, `(labels == x).float()`, `mask.to(x.dtype)`; their products."""
    if isinstance(node, ast.expr) and _is_comparison(node, ctx):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, _KEEPING):
        sides = (node.left, node.right)
        return all(
            type(ctx.constant(side)) is int
            or _is_whole(side, ctx, calls)
            or (calls > 0 and are_counted(side, ctx, calls - 1))
            for side in sides
        )
    if isinstance(node, ast.Subscript):
        return _is_whole(node.value, ctx, calls)
    function = node.func if isinstance(node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or not isinstance(node, ast.Call):
        return False
    if function.attr in _MOVES or function.attr in _VIEWS:
        return _is_whole(function.value, ctx, calls)
    if function.attr in _CASTS:
        return _is_whole(function.value, ctx, calls) or _holds_whole(function.value, ctx)
    if function.attr == "where" and len(node.args) == 3:
        return all(ctx.constant(chosen) in (0, 1) for chosen in node.args[1:])
    return function.attr.removeprefix("new_").removesuffix("_like") in ("ones", "zeros", "eye")


def _holds_whole(node: ast.expr, ctx: Context) -> bool:
    """Is it of integers or bools: `reached`, which is `torch.zeros(n, dtype=torch.bool)` at first and `x > 0` later?"""
    if without_gradient_dtype(ctx.values(node)):
        return True
    found = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    made = [unpacked(binding) if binding.kind is BindingKind.ASSIGN else None for binding in found]
    return bool(made) and all(
        value is not None and (_is_comparison(value, ctx) or without_gradient_dtype(ctx.values(value)))
        for value in made
    )


def _is_comparison(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`labels == x`, `labels.eq(x)`, `~(a & b)` of such, also under a name."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and _is_comparison(node.operand, ctx, steps)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return isinstance(node.op, (ast.BitAnd, ast.BitOr)) and all(_is_comparison(side, ctx, steps) for side in sides)
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _compares(node, ctx)):
        return True
    before = stands_for(node, ctx) if steps else []
    return bool(before) and all(
        not place and _is_comparison(made, inside, steps // 2) for made, inside, place in before
    )


def _compares(call: ast.Call, ctx: Context) -> bool:
    return identifier(call.func) in _COMPARING and any(name.startswith("torch.") for name in ctx.callees(call))
