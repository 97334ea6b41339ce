"""Calls of helpers that work in train mode unless told otherwise, in forward passes that do not tell them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.built import runs_with_forward
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.training import guarded_by_mode, spared_by_mode, trains
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode

# Whoever calls a module may know the mode without asking for it.
_MODULE = ("forward", "__call__")
_MAX_STEPS = 3


def left_on(training: ast.expr | None, ctx: Context, steps: int = _MAX_STEPS) -> Iterator[tuple[Context, ast.Call]]:
    """Yield the calls from forward passes that leave a helper in train mode: `drop(x)` of `def drop(x, train=True):`.

    `training` is what the helper goes by, a parameter of it; the flag may be handed on from one helper to the next.
    """
    bindings = ctx.module.definitions(training) if isinstance(training, ast.Name) else ()
    function = bindings[0].scope.node if len(bindings) == 1 else None
    if not isinstance(function, FUNCTIONS) or bindings[0].kind is not BindingKind.PARAMETER:
        return
    if not steps or function.name in _MODULE:
        return
    default, qualified = bindings[0].value, ctx.module.qualified(function)
    for site in calls_of(function, ctx):
        if site is None or is_test_file(site[0].module) or qualified not in site[0].callees(site[1]):
            continue
        where, call = site
        given = argument_of(function, bindings[0].name, call, skip_self=isinstance(call.func, ast.Attribute))
        flag = default if given is None and takes_default(call) else given
        if isinstance(flag, ast.Constant) and flag.value is True:
            if is_called_in_forward(where, call):
                yield site
        elif given is not None:
            yield from left_on(given, where, steps - 1)


def is_called_in_forward(where: Context, call: ast.Call, steps: int = _MAX_STEPS) -> bool:
    """Does a forward pass lead to a call, in both modes, itself or through functions of the project?"""
    around = where.function(call)
    if around is None or trains(around) or guarded_by_mode(where.module, call):
        return False
    if runs_with_forward(around, where.module):
        return True
    if not steps or around.name in _MODULE or where.module.index.class_at(around) is not None:
        return False
    return any(site is not None and is_called_in_forward(*site, steps - 1) for site in calls_of(around, where))


def is_called_in_training_only(function: FunctionNode, ctx: Context) -> bool:
    """`if self.training: x = jittered(x)`: does a condition on the mode stand before each call of a function?"""
    if ctx.module.index.class_at(function) is not None:
        return False
    sites = list(calls_of(function, ctx))
    return bool(sites) and all(site is not None and spared_by_mode(site[0].module, site[1]) for site in sites)


def takes_default(call: ast.Call) -> bool:
    """Are all arguments of a call in sight, so that what is not there is left at its default?"""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not starred and all(keyword.arg is not None for keyword in call.keywords)
