"""Does a computation give nothing of the memory that it is given: `torch.empty(n) * float("nan")`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.values import Kind

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Whatever they are given beside NaN, they give NaN. A power may be 1 all the same.
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_METHODS = frozenset({"add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"})
_NAN = frozenset({"math.nan", "numpy.nan", "numpy.NaN", "torch.nan"})
# An index that these make names each place of its rows once.
_PERMUTING = frozenset({"torch.argsort", "torch.Tensor.argsort", "torch.randperm"})


def is_erased(memory: ast.expr, user: ast.AST | None, ctx: Context) -> bool:
    """Return whether what uses memory gives the same whatever the memory holds."""
    if isinstance(user, ast.BinOp):
        beside = user.right if user.left is memory else user.left
        return isinstance(user.op, _ARITHMETIC) and _is_nan(beside, ctx)
    if isinstance(user, ast.AugAssign):
        return isinstance(user.op, _ARITHMETIC) and user.target is memory and _is_nan(user.value, ctx)
    if isinstance(user, ast.Attribute):
        call = ctx.parent(user)
        if not isinstance(call, ast.Call) or call.func is not user:
            return False
        if user.attr in _METHODS:
            return bool(call.args) and _is_nan(call.args[0], ctx)
        return user.attr == "scatter" and _covers(call, 1, ctx)
    if isinstance(user, ast.Call) and user.args[:1] == [memory] and "torch.scatter" in ctx.callees(user):
        return _covers(user, 2, ctx)
    return False


def _is_nan(node: ast.expr, ctx: Context) -> bool:
    """`float("nan")`, `math.nan`, `-torch.nan`."""
    if isinstance(node, ast.UnaryOp):
        return _is_nan(node.operand, ctx)
    if isinstance(node, ast.Call):
        word = ctx.constant(node.args[0]) if len(node.args) == 1 and "builtins.float" in ctx.callees(node) else None
        return isinstance(word, str) and word.strip("+-").lower() == "nan"
    return not _NAN.isdisjoint(ctx.resolve(node))


def _covers(scatter: ast.Call, place: int, ctx: Context) -> bool:
    """`torch.scatter(memory, 1, x.argsort(1), places)`: each element of a row is replaced."""
    named = [word.value for word in scatter.keywords if word.arg == "index"]
    index = next(iter([*named, *scatter.args[place : place + 1]]), None)
    values = ctx.values(index) if index is not None else ()
    made = [value.node for value in values if value.kind is not Kind.NONE]
    return bool(made) and all(
        isinstance(call, ast.Call) and not _PERMUTING.isdisjoint(ctx.callees(call)) for call in made
    )
