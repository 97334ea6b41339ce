"""Code that the project never runs: `if mode == "reflect":` in a helper that nobody passes that mode; left-overs.

Of conditions only words tell. A flag that is off, or an argument that is left out, is an option that users of a library
turn on; and what has a public name they may call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import CallSite, calls_of, is_set_from_outside
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.left_over import is_left_over
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Calls that a setting is followed through, from the parameter back to where it is written. What a caller hands on from
# a parameter of its own is the business of whoever calls that.
_MAX_CALLS = 1
_WORDS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def is_never_run(node: ast.AST, ctx: Context) -> bool:
    """Return whether `node` stands in a branch that no call leads to, or in private code that nobody names."""
    if any(
        _truth(test, ctx) is (Truth.NO if holds else Truth.YES)
        for test, holds in ctx.module.index.conditions_around(node)
    ):
        return True
    return any(
        isinstance(around, (*FUNCTIONS, ast.ClassDef)) and is_left_over(around, ctx) for around in ctx.ancestors(node)
    )


def literals_of(node: ast.expr, ctx: Context, steps: int = _MAX_CALLS) -> list[object]:
    """Return every literal that an expression can be, going by what the project passes; none where it may be another.

    A parameter is what each call outside tests passes or leaves at its default, if there is a call.
    """
    known = ctx.constant(node)
    if known is not MISSING:
        return [] if isinstance(node, ast.Attribute) and is_set_from_outside(node.attr, ctx) else [known]
    if not isinstance(node, (ast.Name, ast.Attribute)) or ctx.is_counted(node):
        return []
    found: list[object] = []
    for value in ctx.values(node):
        made = value.node
        literals: list[object] = [made.value] if isinstance(made, ast.Constant) else []
        if isinstance(made, ast.arg) and value.module is not None and steps:
            literals = _passed(made, ctx.elsewhere(value.module), steps - 1)
        if not literals:
            return []
        found += literals
    return found


def _passed(parameter: ast.arg, ctx: Context, steps: int) -> list[object]:
    function = ctx.parent(ctx.parent(parameter) or parameter)
    if not isinstance(function, FUNCTIONS) or function.name == "forward":
        return []
    owner = ctx.module.index.class_at(function)
    sites = list(calls_of(owner if owner is not None and function.name == "__init__" else function, ctx))
    found: list[object] = []
    for site in sites:
        if site is None:
            return []
        if is_test_file(site[0].module):
            continue
        literals = _passed_by(site, parameter, function, ctx, steps)
        if not literals:
            return []
        found += literals
    return found


def _passed_by(site: CallSite, parameter: ast.arg, function: FunctionNode, ctx: Context, steps: int) -> list[object]:
    inside, call = site
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords):
        return []
    given = argument_of(function, parameter.arg, call, skip_self=True)
    if given is not None:
        return literals_of(given, inside, steps)
    default = next((default for argument, default in parameters(function.args) if argument is parameter), None)
    known = ctx.constant(default)
    return [] if known is MISSING else [known]


def _truth(test: ast.expr, ctx: Context) -> Truth:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ~_truth(test.operand, ctx)
    if isinstance(test, ast.BoolOp):
        truths = [_truth(value, ctx) for value in test.values]
        decisive = Truth.NO if isinstance(test.op, ast.And) else Truth.YES
        if decisive in truths:
            return decisive
        return Truth.UNKNOWN if Truth.UNKNOWN in truths else ~decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test, test.ops[0], ctx)
    return Truth.UNKNOWN


def _compared(test: ast.Compare, op: ast.cmpop, ctx: Context) -> Truth:
    """`mode == "reflect"`, `mode in ("reflect", "replicate")`."""
    words = test.comparators[0]
    listed = words.elts if isinstance(words, (ast.Tuple, ast.List, ast.Set)) else [words]
    asked = [part.value for part in listed if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    several = isinstance(op, (ast.In, ast.NotIn))
    if len(asked) != len(listed) or several is (listed == [words]) or not isinstance(op, _WORDS):
        return Truth.UNKNOWN
    answers = {literal in asked for literal in literals_of(test.left, ctx)}
    if len(answers) != 1:
        return Truth.UNKNOWN
    found = Truth.of(answers.pop())
    return found if isinstance(op, (ast.Eq, ast.In)) else ~found
