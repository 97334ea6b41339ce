"""What is a result meant to be, but for rounding? One where shares are added up, zero where values were centred."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.one_source import made_as
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

_ONES = ("torch.ones", "torch.ones_like")
_AVERAGING = ("mean", "sum")


def adds_up_to_one(total: ast.expr, one: ast.expr, ctx: Context) -> bool:
    """`is_normalized = (x.sum(-1) == 1.0).all()`: names tell that fractions are added."""
    made = made_as(total, ctx) or total
    if not isinstance(made, ast.Call) or identifier(made.func) != "sum" or not _is_one(one, ctx):
        return False
    if any(value.is_integral for part in (made, *made.args) for value in ctx.values(part)):
        return False
    function, statement = ctx.function(total), ctx.statement(total)
    names = [identifier(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []
    return _say((*names, function.name if function is not None else ""), rounding_table().normalized)


def _is_one(node: ast.expr, ctx: Context) -> bool:
    constant = ctx.constant(node)
    made = made_as(node, ctx) or node
    ones = isinstance(made, ast.Call) and any(name in _ONES for name in ctx.callees(made))
    return ones or (isinstance(constant, float) and constant == 1.0)


def is_meant_to_be_zero(node: ast.expr, ctx: Context) -> bool:
    """`eigenvalues.imag`, `centered.mean(0)`, `(x - x.mean(0)).sum(0)`."""
    if isinstance(node, ast.Attribute) and node.attr == "imag":
        return True
    made = made_as(node, ctx) or node
    if not isinstance(made, ast.Call) or identifier(made.func) not in _AVERAGING:
        return False
    method = made.func if isinstance(made.func, ast.Attribute) and not ctx.resolve(made.func.value) else None
    return any(_is_centred(part, ctx) for part in ([method.value] if method is not None else made.args[:1]))


def _is_centred(node: ast.expr, ctx: Context) -> bool:
    """`x - x.mean(0)`, and what is centred by its name, or by that of the function that made it."""
    made = made_as(node, ctx) or node
    if isinstance(made, ast.BinOp):
        return isinstance(made.op, ast.Sub) and any(
            identifier(part.func) == "mean" and is_computed(ctx.module, part)
            for part in walk(made.right)
            if isinstance(part, ast.Call)
        )
    called = identifier(made.func) if isinstance(made, ast.Call) else ""
    return _say((identifier(node), called), rounding_table().centred)


def _say(names: tuple[str, ...], words: frozenset[str]) -> bool:
    return any(not words.isdisjoint(name.split("_")) for name in names)
