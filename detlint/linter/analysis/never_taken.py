"""Branches that the project never takes, by what it passes to the function: `if mode == "reflect":`, `if subset > -1:`.

So those for other releases of torch than the one in force.

What an option of a command line is by default says nothing: it is there to be given.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detlint.conditions import Truth
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.left_over import is_left_over
from detlint.linter.analysis.passed import literals_of
from detlint.linter.analysis.releases import COMPARED, holds_for_release
from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    **COMPARED,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda literal, listed: literal in listed,
    ast.NotIn: lambda literal, listed: literal not in listed,
}


def is_never_run(node: ast.AST, ctx: Context) -> bool:
    """Return whether `node` stands in a branch that no call leads to, or in private code that nobody names.

    Of conditions only words tell. A flag that is off, or an argument that is left out, is an option that users of a
    library turn on; and what has a public name they may call.
    """
    return _is_kept_off(node, ctx, words_only=True) or any(
        isinstance(around, (*FUNCTIONS, ast.ClassDef)) and is_left_over(around, ctx) for around in ctx.ancestors(node)
    )


def is_switched_off(node: ast.AST, ctx: Context) -> bool:
    """Return whether a condition keeps `node` from running: a flag that is off, a parameter that all calls leave so."""
    return _is_kept_off(node, ctx, words_only=False)


def _is_kept_off(node: ast.AST, ctx: Context, *, words_only: bool) -> bool:
    conditions = ctx.module.index.conditions_around(node)
    return any(_truth(test, ctx, words_only) is Truth.of(not holds) for test, holds in conditions)


def _truth(test: ast.expr, ctx: Context, words_only: bool) -> Truth:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ~_truth(test.operand, ctx, words_only)
    if isinstance(test, ast.BoolOp):
        truths = [_truth(value, ctx, words_only) for value in test.values]
        decisive = Truth.NO if isinstance(test.op, ast.And) else Truth.YES
        if decisive in truths:
            return decisive
        return Truth.UNKNOWN if Truth.UNKNOWN in truths else ~decisive
    of_release = holds_for_release(test, ctx)
    if of_release is not Truth.UNKNOWN:
        return of_release
    if isinstance(test, ast.Compare):
        return _compared(test, ctx, words_only)
    return Truth.UNKNOWN if words_only else _all_alike([bool(literal) for literal in literals_of(test, ctx)])


def _compared(test: ast.Compare, ctx: Context, words_only: bool) -> Truth:
    """`mode == "reflect"`, `mode in ("reflect", "replicate")`, `subset > -1`."""
    compare, other = _COMPARED.get(type(test.ops[0])), test.comparators[0]
    listed = other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else None
    asked = [ctx.constant(part) for part in (listed if listed is not None else [other])]
    several = isinstance(test.ops[0], (ast.In, ast.NotIn))
    if len(test.ops) != 1 or compare is None or MISSING in asked or several is (listed is None):
        return Truth.UNKNOWN
    if words_only and not all(isinstance(word, str) for word in asked):
        return Truth.UNKNOWN
    try:
        return _all_alike([compare(literal, asked if several else asked[0]) for literal in literals_of(test.left, ctx)])
    except TypeError:  # None > -1
        return Truth.UNKNOWN


def _all_alike(answers: list[bool]) -> Truth:
    return Truth.of(answers[0]) if len(set(answers)) == 1 else Truth.UNKNOWN
