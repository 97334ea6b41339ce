"""Does a function of the project write only a part of the memory that it is given?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.context import Context
from detlint.linter.memory.parts import only_in_part
from detlint.linter.memory.uses import Fate, fate
from detlint.linter.modes.runs import is_left_open


def fills_in_part(call: ast.expr, given: ast.expr, made: ast.expr, ctx: Context) -> bool:
    """`fill(rows, out)`, where all that the function does with `out` is `out[i, :len(row)] = row`, and to return it."""
    called = list(functions_called(ctx.inference, call)) if isinstance(call, ast.Call) else []
    if len(called) != 1 or not isinstance(call, ast.Call) or is_left_open(called[0][1]):
        return False
    inside, function = ctx.elsewhere(called[0][0]), called[0][1]
    name = parameter_given(function, call, given, skip_self=isinstance(call.func, ast.Attribute))
    bindings = inside.module.index.scopes[function].bindings[name] if name is not None else []
    if len(bindings) != 1 or not isinstance(bindings[0].node, ast.arg):
        return False
    uses = inside.flow(function.body[0]).uses(bindings[0])
    fates = {use: fate(use, inside)[0] for use in uses}
    writes = [use for use, outcome in fates.items() if outcome is Fate.WRITTEN]
    others = set(fates.values()) - {Fate.WRITTEN, Fate.UNTOUCHED, Fate.RETURNED}
    own = all(inside.function(use) is function for use in uses)
    return own and bool(writes) and not others and only_in_part(writes, bindings[0].node, made, inside)
