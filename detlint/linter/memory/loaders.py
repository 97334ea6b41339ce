"""Is a parameter one that a checkpoint fills: `self.weight.weight_loader = load`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.uses import registered_name
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_LOADS = "load"  # in the name of what a parameter is given to be filled with


def is_loaded(parameter: ast.expr | None, ctx: Context) -> bool:
    """Is a parameter kept as an attribute that its class gives a loader?"""
    kept = ctx.parent(parameter) if parameter is not None else None
    owner = ctx.module.index.class_at(kept) if kept is not None else None
    if owner is None:
        return False
    names = {target.attr for target in getattr(kept, "targets", []) if is_own(target)}
    if isinstance(kept, ast.Call) and (name := registered_name(kept)) is not None:
        names = {name}
    return any(
        isinstance(set_on.ctx, ast.Store)
        and _LOADS in set_on.attr
        and isinstance(set_on.value, ast.Attribute)
        and is_own(set_on.value)
        and set_on.value.attr in names
        and ctx.module.index.class_at(set_on) is owner
        for set_on in ctx.module.index.of_type(ast.Attribute)
    )
