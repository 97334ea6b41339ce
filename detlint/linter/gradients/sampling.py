"""Sampling loops: a function runs a model that it is given again and again on what the model made; nobody trains so."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.programs.training import trains
from detlint.linter.source.names import LOOPS, FunctionNode
from detlint.linter.source.nodes import arguments_of, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_SAMPLES = re.compile(r"(^|_)sampl(e|er|es|ing)(_|$)")
_MAX_STEPS = 32
_LOOP = ast.For | ast.AsyncFor | ast.While


def runs_sampling_loop(function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function is named after sampling, and feeds a model that it is given what that made before.

    `def euler_sampler(net, x, steps): for t in steps: x = x + net(x, t)`. A method may be a part of a model that is
    trained on its own samples.
    """
    if ctx.module.index.class_at(function) is not None or not _SAMPLES.search(function.name) or trains(function):
        return False
    given = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    loops = (part for part in walk(function) if isinstance(part, LOOPS))
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in given
        for loop in loops
        for part in walk(loop)
        if isinstance(part, ast.Call) and _is_fed_back(part, loop, ctx)
    )


def _is_fed_back(call: ast.Call, loop: _LOOP, ctx: Context) -> bool:
    """Does a call in a loop get what an earlier turn of the loop set, from a start before it, by way of other names?

    And does what it gives take part in that?
    """
    pending: list[ast.AST] = list(arguments_of(call))
    seen: set[ast.AST] = set()
    carried = fed = False
    while pending and len(seen) < _MAX_STEPS:
        for name in (part for part in walk(pending.pop()) if isinstance(part, ast.Name)):
            bindings = ctx.module.definitions(name)
            inside = [binding for binding in bindings if loop in ctx.ancestors(binding.node)]
            carried |= 0 < len(inside) < len(bindings)
            for value in (binding.value for binding in inside if binding.value is not None):
                fed |= call in walk(value)
                if value not in seen:
                    seen.add(value)
                    pending.append(value)
    return carried and fed
