"""Is memory that an object keeps read by its other methods as it is?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.attribute_fates import fate_under_names
from detlint.linter.memory.uses import Fate
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_ONLY_READ = frozenset({Fate.READ, Fate.ADDED_TO, Fate.UNTOUCHED})


def is_read_where_kept(use: ast.expr, ctx: Context) -> bool:
    """`self.starts = starts`, the one place that sets it, and then `self.starts[row] + 1` in another method."""
    statement = ctx.parent(use)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is use else None
    if not isinstance(target, ast.Attribute) or not is_own(target):
        return False
    index = ctx.module.index
    named = [part for part in index.names_used.get(target.attr, ()) if isinstance(part, ast.Attribute)]
    others = [part for part in named if part is not target]
    if any(not isinstance(part.ctx, ast.Load) or index.class_at(part) is not index.class_at(target) for part in others):
        return False
    fates = [fate_under_names(part, ctx)[0] for part in others if ctx.function(part) is not ctx.function(use)]
    return len(fates) == len(others) and Fate.READ in fates and _ONLY_READ.issuperset(fates)
