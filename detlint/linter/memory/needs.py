"""Where need fresh memory not be written? Where a condition says that there is none."""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.values import Kind
from detlint.linter.source.nodes import identifier

# What tells how much there is, and that there is nothing.
_SIZES = re.compile(r"^(numel|shape|size|len|prod|nelement)$")
_NOTHING = re.compile(r"(^|_)(no|empty)(_|$)")


def guards_emptiness(target: ast.AST, ctx: Context) -> bool:
    """`if len(boxes) == 0: boxes = x.new_empty(shape)`, `if has_no_edges(n): return out`: there is nothing to read."""
    child = target
    for parent in ctx.ancestors(target):
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            holds = child in parent.body if isinstance(parent, ast.If) else child is parent.body
            test, holds = _turned(parent.test, holds)
            if not holds and (_names_size(test) or _is_collection(test, ctx)):
                return True
            if any(_says_nothing(part, holds, ctx) for part in ast.walk(test)):
                return True
        child = parent
    return False


def _turned(test: ast.expr, holds: bool) -> tuple[ast.expr, bool]:
    """Return `n > 0` that does not hold, for `not n > 0` that does."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Compare):
        return test.operand, not holds
    return test, holds


def _names_size(test: ast.expr) -> bool:
    """`boxes.size`, `x.numel()`, `len(rows)`."""
    return _SIZES.search(identifier(test.func if isinstance(test, ast.Call) else test)) is not None


def _is_collection(test: ast.expr, ctx: Context) -> bool:
    """`if rows: return torch.stack(rows)`."""
    kinds = {value.kind for value in ctx.values(test)} if isinstance(test, ast.Name) else set()
    return bool(kinds) and kinds <= {Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.SET}


def _says_nothing(test: ast.AST, holds: bool, ctx: Context) -> bool:
    """Is there nothing where a part of a condition holds, `n == 0`, `not x.numel()`, or does not: `n > 0`?"""
    if isinstance(test, ast.Compare):
        kind = type(test.ops[0])
        limit = ctx.constant(test.comparators[0])
        nothing = (limit == 0 and kind in (ast.Eq, ast.LtE)) or (limit == 1 and kind is ast.Lt)
        something = (limit == 0 and kind in (ast.NotEq, ast.Gt)) or (limit == 1 and kind is ast.GtE)
        return len(test.ops) == 1 and (nothing if holds else something)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return holds and _is_size_test(test.operand, ctx)
    return _NOTHING.search(identifier(test)) is not None


def _is_size_test(test: ast.expr, ctx: Context) -> bool:
    """`x.numel()`, `len(rows) > 0`, `batch * cells`, and `total` after `total = x.shape[0] * k`."""
    if isinstance(test, ast.BinOp):
        return True
    if isinstance(test, ast.Compare):
        beside = test.comparators[0]
        if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.NotEq)) or ctx.constant(beside) != 0:
            return False
        test = test.left
    made = [binding.value for binding in ctx.module.definitions(test)] if isinstance(test, ast.Name) else [test]
    return bool(made) and all(
        value is not None and any(_SIZES.search(identifier(part)) for part in ast.walk(value)) for value in made
    )
