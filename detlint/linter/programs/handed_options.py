"""What callers bring by name through a function that hands its options on: `attend(q, k, v, dropout_p=self.p)`.

So of `def attend(q, k, v, **options): return scaled_dot_product_attention(q, k, v, **options)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.calls_elsewhere import heirs_with
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.dicts import written_items
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.left_on import is_called_in_forward
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import is_own

_MAX_STEPS = 3  # of functions that hand the options on


class Brought(NamedTuple):
    """A value that is brought, where that is said, and the context of that place."""

    value: ast.expr
    place: ast.expr
    ctx: Context


def brought_by_forward(name: str, call: ast.Call, ctx: Context, steps: int = _MAX_STEPS) -> Iterator[Brought]:
    """Yield what forward passes bring by a name to a call that is given `**options` of the function around it."""
    function = ctx.function(call)
    gathered = function.args.kwarg if function is not None else None
    if function is None or gathered is None or not steps or not _hands_on(call, gathered, ctx):
        return
    for site in calls_of(function, ctx):
        if site is None or is_test_file(site[0].module):
            continue
        where, calling = site
        found = list(_given(name, calling, where))
        if found and is_called_in_forward(where, calling):
            yield from found
        elif not found:
            yield from brought_by_forward(name, calling, where, steps - 1)


def _hands_on(call: ast.Call, gathered: ast.arg, ctx: Context) -> bool:
    spread = (keyword.value for keyword in call.keywords if keyword.arg is None)
    bound = [ctx.module.definitions(value) for value in spread if isinstance(value, ast.Name)]
    return any([binding.node for binding in bindings] == [gathered] for bindings in bound)


def _given(name: str, call: ast.Call, ctx: Context) -> Iterator[Brought]:
    """Yield what a call gives by a name, itself or in a dictionary: `**self.options(mask)`, of all classes with one."""
    for keyword in call.keywords:
        if keyword.arg == name:
            yield Brought(keyword.value, call, ctx)
        elif keyword.arg is None and isinstance(keyword.value, ast.Call):
            for module, function in _methods_called(keyword.value, ctx.module):
                for statement in module.flow(module.index.scopes[function]).returns():
                    items = written_items(module, statement.value) if statement.value is not None else None
                    if items and name in items and statement.value is not None:
                        yield Brought(items[name], statement.value, ctx.elsewhere(module))
        elif keyword.arg is None:
            items = written_items(ctx.module, keyword.value)
            if items and name in items:
                yield Brought(items[name], call, ctx)


def _methods_called(call: ast.Call, module: Module) -> Iterator[tuple[Module, FunctionNode]]:
    """Yield the functions of the project that a call may run, those among them that classes have in place of others."""
    for where, function in functions_called(module.inference, call):
        yield where, function
        owner = where.index.class_at(function)
        if owner is not None and is_own(call.func):
            for place, heir in heirs_with(where, owner, function.name):
                yield place, place.inference.class_info(heir).methods[function.name]
