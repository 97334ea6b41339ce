"""Does code run in train mode and in eval mode alike, going by the forward passes that lead to it?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.built import runs_with_forward
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.left_on import is_called_in_forward
from detlint.linter.programs.training import guarded_by_mode
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier


def runs_in_both_modes(function: FunctionNode, ctx: Context) -> bool:
    """Does a forward pass lead to a function, and no condition on the mode stand before a call of it?"""
    owner = ctx.module.index.class_at(function)
    if owner is None:
        sites = list(calls_of(function, ctx))
        known = [site for site in sites if site is not None and not is_test_file(site[0].module)]
        return len(known) == len(sites) and any(is_called_in_forward(*site) for site in known)
    if not runs_with_forward(function, ctx.module):
        return False
    made = [site for site in calls_of(owner, ctx) if site is not None]
    return not any(_is_guarded_layer(call, where) for where, call in made)


def _is_guarded_layer(call: ast.Call, ctx: Context, steps: int = 2) -> bool:
    """Is a layer made under a condition on the mode, or called under one: `if self.training: x = self.drop(x)`?

    What a helper makes is, where what that gives is.
    """
    if guarded_by_mode(ctx.module, call):
        return True
    statement, helper = ctx.statement(call), ctx.function(call)
    if isinstance(statement, ast.Return) and helper is not None and steps:
        return any(_is_guarded_layer(site[1], site[0], steps - 1) for site in calls_of(helper, ctx) if site)
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    names = [identifier(target) for target in targets]
    calls = (used for name in names for used in ctx.module.index.calls_by_name.get(name, ()))
    return any(guarded_by_mode(ctx.module, used) for used in calls)
