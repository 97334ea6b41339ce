"""Is one of several taken out of a set? Whoever takes the only one there is does not ask first whether there is any."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_COPIES = ("iter", "list", "tuple")
_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)


def takes_the_only_one(held: ast.expr, ctx: Context) -> bool:
    """`kinds.pop()`, `next(iter(kinds))`, `list(kinds)[0]` without a sign that there may be none, or several.

    Such a sign is a test of whether there is any, or a default. Who asks whether there are two has dealt with that.
    """
    pick = _pick(held, ctx)
    if pick is None:
        return False
    tests = [_test(use, ctx) for use in _uses(held, ctx)]
    if any(test == "several" for test in tests):
        return True
    has_default = isinstance(pick, ast.Call) and identifier(pick.func) == "next" and len(pick.args) > 1
    return not (has_default or "any" in tests)


def _pick(held: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what takes one out of a set right where the set stands."""
    parent = ctx.parent(held)
    if isinstance(parent, ast.Attribute):
        call = ctx.parent(parent)
        return call if parent.attr == "pop" and isinstance(call, ast.Call) and call.func is parent else None
    if not isinstance(parent, ast.Call) or identifier(parent.func) not in _COPIES or parent.args != [held]:
        return None
    around = ctx.parent(parent)
    if isinstance(around, ast.Call):
        return around if identifier(around.func) == "next" and around.args[:1] == [parent] else None
    if not isinstance(around, ast.Subscript) or around.value is not parent:
        return None
    return around if isinstance(around.slice, (ast.Constant, ast.UnaryOp)) else None


def _uses(held: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return what else the function, or the file, says of a variable or an attribute; nothing of what has no name."""
    if not isinstance(held, (ast.Name, ast.Attribute)):
        return []
    text, function = ast.unparse(held), ctx.function(held)
    named = ctx.module.index.names_used.get(identifier(held), ())
    return [
        use
        for use in named
        if isinstance(use, ast.expr)
        and ast.unparse(use) == text
        and (function is None or ctx.function(use) is function)
    ]


def _test(use: ast.expr, ctx: Context) -> str:
    """Say what is asked of a set: whether there is `any` in it, whether there are `several`, or nothing."""
    counted = ctx.parent(use)
    if not isinstance(counted, ast.Call) or identifier(counted.func) != "len":
        return "any" if _is_tested(use, ctx) else ""
    compare = ctx.parent(counted)
    if not isinstance(compare, ast.Compare):
        return "any" if _is_tested(counted, ctx) else ""
    number = getattr(compare.comparators[0], "value", None)
    more = isinstance(compare.ops[0], (ast.Gt, ast.Eq, ast.NotEq, ast.LtE)) and number == 1
    return "several" if more or number == 2 else "any"


def _is_tested(node: ast.expr, ctx: Context) -> bool:
    """`if kinds:`, `kinds.pop() if kinds else None`, `while kinds and wanted`."""
    parent = ctx.parent(node)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While)):
        return parent.test is node
    if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        return isinstance(parent, ast.UnaryOp) or _is_tested(parent, ctx) or node is not parent.values[-1]
    return False


def is_for_an_error(node: ast.expr, ctx: Context) -> bool:
    """Does it stand in a branch that ends in an error, and only there, so that nothing else is made of it?"""
    statement = ctx.statement(node)
    parent = ctx.parent(statement)
    if not isinstance(parent, (ast.If, ast.ExceptHandler)) or isinstance(statement, (ast.If, ast.While, *FUNCTIONS)):
        return False
    blocks = [block for block in (parent.body, getattr(parent, "orelse", [])) if statement in block]
    later = [each for block in blocks for each in block[block.index(statement) :]]
    left = any(isinstance(part, _LEAVING) for each in later for part in ast.walk(each))
    return bool(later) and isinstance(later[-1], ast.Raise) and not left
