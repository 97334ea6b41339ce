"""Does each thread of a Warp kernel add to a place of its own? Then an atomic has nobody to race with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_THREAD = "warp.tid"
_ATOMICS = ("warp.atomic_",)


def adds_to_own_place(call: ast.Call, ctx: Context) -> bool:
    """`i, j = wp.tid()` and `wp.atomic_add(out, i, j, x)`: does no atomic on that array name another place?"""
    kernel = ctx.function(call)
    if kernel is None or not call.args:
        return False
    calls = (part for part in walk(kernel) if isinstance(part, ast.Call) and part.args)
    array = ast.unparse(call.args[0])
    on_array = [part for part in calls if ast.unparse(part.args[0]) == array and _is_atomic(part, ctx)]
    return bool(on_array) and all(_names_thread(part, ctx) for part in on_array)


def _is_atomic(call: ast.Call, ctx: Context) -> bool:
    return any(name.startswith(_ATOMICS) for name in ctx.callees(call))


def _names_thread(atomic: ast.Call, ctx: Context) -> bool:
    """Are all numbers of the thread among the indices, which come between the array and the value?"""
    indices = {index.id: index for index in atomic.args[1:-1] if isinstance(index, ast.Name)}
    for index in indices.values():
        bindings = ctx.module.definitions(index)
        made = bindings[0].value if len(bindings) == 1 else None
        if isinstance(made, ast.Call) and _THREAD in ctx.callees(made):
            return _targets(made, ctx) <= set(indices)
    return False


def _targets(made: ast.Call, ctx: Context) -> set[str]:
    """Return what `i, j = wp.tid()` names."""
    statement = ctx.statement(made)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}
