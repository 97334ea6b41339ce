"""What callers give to a call made of all they give: `def pool(*args, **kwargs): return AvgPool3d(*args, **kwargs)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import CallSite, calls_of
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def made_by_callers(call: ast.Call, ctx: Context) -> list[tuple[CallSite, ast.Call]]:
    """Return each call of the function around `call`, with `call` as it is made there; none where one is not seen."""
    function = ctx.function(call)
    if function is None or not _hands_all_on(call, function):
        return []
    found: list[tuple[CallSite, ast.Call]] = []
    for site in calls_of(function, ctx):
        if site is None:
            return []
        found.append((site, left_over(site[1], function, call.func)))
    return found


def _hands_all_on(call: ast.Call, function: FunctionNode) -> bool:
    """Does a call take `*args, **kwargs` of its function, and nothing else?"""
    starred = [part.value for part in call.args if isinstance(part, ast.Starred)]
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    gathered = [each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None]
    given = [part.id for part in (*starred, *spread) if isinstance(part, ast.Name)]
    return bool(given) and given == gathered and len(given) == len(call.args) + len(call.keywords)


def left_over(made: ast.Call, function: FunctionNode, called: ast.expr) -> ast.Call:
    """Return the call of `called` with what is left of `made` when the function's own parameters have taken theirs."""
    named = [argument for argument, _ in parameters(function.args)]
    own = {argument.arg for argument in named}
    first = function.args.posonlyargs + function.args.args
    bound = first[1:] if first and first[0].arg == "self" and is_own(made.func) else first
    return ast.Call(called, made.args[len(bound) :], [keyword for keyword in made.keywords if keyword.arg not in own])
