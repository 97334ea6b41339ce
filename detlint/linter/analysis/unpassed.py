"""Parameters that are None unless a caller says otherwise, and whether any does."""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.callers import CallSite
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.constructions import callers_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.own_options import held
from detlint.linter.analysis.program import in_package
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode

_DEPTH = 2


def is_never_passed(name: ast.Name, ctx: Context) -> bool:
    """Is this a parameter, None by default, of a function that the project calls and never gives a value for it?

    A caller that hands on an optional parameter of its own gives what its callers give; without any, nothing.
    """
    function = optional_in(name, ctx)
    return function is not None and is_left_out(function, name.id, ctx)


def is_left_out(function: FunctionNode, parameter: str, ctx: Context) -> bool:
    """Does the project call a function, and never give it a value for a parameter that is None by default?"""
    return _is_left_out(function, parameter, ctx, _DEPTH, used=True)


def is_passed(function: FunctionNode, parameter: str, ctx: Context) -> bool:
    """Does a call in the project, outside tests, give a function a value for a parameter that is None by default?"""
    return any(not _leaves_out(function, parameter, site, _DEPTH) for site in callers_of(function, ctx) or ())


def optional_in(name: ast.Name, ctx: Context) -> FunctionNode | None:
    """Return the function of which a name is a parameter, None by default, and nothing else where it is read."""
    bindings = ctx.module.definitions(name)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER:
        return None
    value, function = bindings[0].value, bindings[0].scope.node
    missing = isinstance(value, ast.Constant) and value.value is None
    return function if missing and isinstance(function, FUNCTIONS) else None


def is_asked_about(value: ast.expr, ctx: Context) -> bool:
    """Does a condition of the function, or of the class for an attribute, look at a value? It may provide for None."""
    around = ctx.function(value) if isinstance(value, ast.Name) else ctx.module.index.class_at(value)
    text = ast.unparse(value)
    parts = ast.walk(around) if around is not None else ()
    tests = (part.test for part in parts if isinstance(part, (ast.If, ast.IfExp, ast.Assert)))
    return any(isinstance(part, ast.expr) and ast.unparse(part) == text for test in tests for part in ast.walk(test))


def _is_left_out(function: FunctionNode, parameter: str, ctx: Context, depth: int, *, used: bool) -> bool:
    calls = callers_of(function, ctx, handed=True)
    if calls is None or (not calls and (used or _is_offered(function, parameter, ctx))):
        return False
    return all(_leaves_out(function, parameter, site, depth) for site in calls)


def _is_offered(function: FunctionNode, parameter: str, ctx: Context) -> bool:
    """Does a package tell its users of a parameter, so that they pass it where they want to?"""
    owner = ctx.module.index.class_at(function)
    texts = [ast.get_docstring(each) or "" for each in (function, owner) if each is not None]
    told = any(re.search(rf"\b{re.escape(parameter)}\b", text) for text in texts)
    private = any(each.name.startswith("_") for each in (function, owner) if each and each.name != "__init__")
    return told and not private and in_package(ctx.module) and ctx.program is None


def _leaves_out(function: FunctionNode, parameter: str, site: CallSite, depth: int) -> bool:
    ctx, call = site
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    options = [held(keyword.value, ctx) for keyword in call.keywords if keyword.arg is None]
    if any(items is None or parameter in items for items in options):
        return False
    method = function.name == "__init__" or isinstance(call.func, ast.Attribute)
    given = argument_of(function, parameter, call, skip_self=method)
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return True
    if not isinstance(given, ast.Name) or depth == 0:
        return False
    around = optional_in(given, ctx)
    return around is not None and _is_left_out(around, given.id, ctx, depth - 1, used=False)
