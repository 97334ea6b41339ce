"""Is a folder a new one, in which there is only what the program has just put there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import all_callers_give
from detlint.linter.analysis.origins import origins
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import is_own
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_CALLERS = 2


def is_just_made(folder: ast.expr, ctx: Context, callers: int = _MOST_CALLERS) -> bool:
    """`tempfile.mkdtemp()`, `join(cache, str(uuid.uuid4()))`, or a parameter for which all callers give such a folder.

    A unique name that an object keeps is that of a run, in whose folder much may have gathered.
    """
    functions, parts = order_table().functions, list(origins(ctx.module, folder, ()))
    made = {
        name for part in parts if isinstance(part.node, ast.Call) for name in part.module.inference.callees(part.node)
    }
    kept = any(isinstance(part.node, ast.Attribute) and is_own(part.node) for part in parts)
    if not functions["temporary"].isdisjoint(made) or not (kept or functions["unique"].isdisjoint(made)):
        return True
    return callers > 0 and any(
        part.module is ctx.module and isinstance(part.node, ast.Name) and _is_given_new(part.node, ctx, callers - 1)
        for part in parts
    )


def _is_given_new(name: ast.Name, ctx: Context, callers: int) -> bool:
    bindings = ctx.module.definitions(name)
    function = bindings[0].scope.node if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    return isinstance(function, FUNCTIONS) and all_callers_give(
        function, name.id, ctx, lambda given, where: is_just_made(given, where, callers)
    )
