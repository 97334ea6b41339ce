"""Branches that nobody takes: `if subset > -1:` in a function that the project calls without a subset."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detlint.conditions import Truth
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.never_taken import literals_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def is_switched_off(node: ast.AST, ctx: Context) -> bool:
    """Return whether a condition keeps `node` from running: a flag that is off, a parameter that all calls leave so.

    What an option of a command line is by default says nothing: it is there to be given.
    """
    return any(_truth(test, ctx) is Truth.of(not holds) for test, holds in ctx.module.index.conditions_around(node))


def _truth(test: ast.expr, ctx: Context) -> Truth:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ~_truth(test.operand, ctx)
    if isinstance(test, ast.Compare):
        return _compared(test, ctx)
    return _all_alike([bool(literal) for literal in literals_of(test, ctx)])


def _compared(test: ast.Compare, ctx: Context) -> Truth:
    compare, other = _COMPARED.get(type(test.ops[0])), ctx.constant(test.comparators[0])
    if len(test.ops) != 1 or compare is None or other is MISSING:
        return Truth.UNKNOWN
    try:
        return _all_alike([compare(literal, other) for literal in literals_of(test.left, ctx)])
    except TypeError:  # None > -1
        return Truth.UNKNOWN


def _all_alike(answers: list[bool]) -> Truth:
    return Truth.of(answers[0]) if len(set(answers)) == 1 else Truth.UNKNOWN
