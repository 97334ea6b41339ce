"""What the project passes for a parameter, where all of it is written out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import CallSite, calls_of, is_set_from_outside
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Calls that a setting is followed through, from the parameter back to where it is written. What a caller hands on from
# a parameter of its own is followed within the file: what others call, they may set.
_MAX_CALLS = 3


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
    called = owner if owner is not None and function.name == "__init__" else function
    sites = list(calls_of(called, ctx, handed=True))
    found: list[object] = []
    for site in sites:
        if site is None:
            return []
        if steps < _MAX_CALLS - 1 and site[0].module is not ctx.module:
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
