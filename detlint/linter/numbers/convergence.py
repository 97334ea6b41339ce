"""Does a loop stop where a measure is exactly what it was in the round before?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.numbers.computed import is_computed
from detlint.linter.source.names import LOOPS, BindingKind, unpacked
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table


def stops_at_repetition(compare: ast.Compare, ctx: Context) -> bool:
    """`if loss == last_loss: break` and `while loss != last_loss`, with `last_loss = loss` in the loop."""
    one, other = compare.left, compare.comparators[0]
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
        return False
    loop = _ended_by(compare, ctx)
    return loop is not None and any(
        _is_measure(now, ctx) and _is_kept(now, before, loop, ctx) for now, before in ((one, other), (other, one))
    )


def _ended_by(compare: ast.Compare, ctx: Context) -> ast.AST | None:
    """Return the loop that a comparison ends, perhaps together with another condition."""
    test: ast.AST = compare
    while isinstance(around := ctx.parent(test), ast.BoolOp):
        test = around
    if isinstance(compare.ops[0], ast.NotEq):
        return around if isinstance(around, ast.While) else None
    ends = isinstance(around, ast.If) and around.test is test and isinstance(around.body[-1], ast.Break)
    return next((loop for loop in ctx.ancestors(test) if isinstance(loop, LOOPS)), None) if ends else None


def _is_measure(name: ast.Name, ctx: Context) -> bool:
    """Is a variable a float by its name, and computed or taken off a tensor?"""
    if rounding_table().measures.isdisjoint(name.id.split("_")):
        return False
    made = [unpacked(binding) or binding.value for binding in ctx.module.definitions(name)]
    return any(value is not None and (is_computed(ctx.module, value) or _takes_off(value)) for value in made)


def _takes_off(value: ast.expr) -> bool:
    """`out["loss"].item() / n`."""
    return any(isinstance(part, ast.Call) and identifier(part.func) == "item" for part in walk(value))


def _is_kept(now: ast.Name, before: ast.Name, loop: ast.AST, ctx: Context) -> bool:
    """Is `before` what `now` was in the last round, and nothing else, such as the least of all rounds?"""
    bound = [each for each in ctx.module.definitions(before) if loop in ctx.ancestors(each.node)]
    return bool(bound) and all(
        each.kind is BindingKind.ASSIGN and getattr(unpacked(each), "id", "") == now.id for each in bound
    )
