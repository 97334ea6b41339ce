"""Does a class fill attributes whose names it is given: `getattr(self, key)[step] = value`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.uses import Fate, fate

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context

_FILLS = (Fate.WRITTEN, Fate.MARKED, Fate.STORED)


def is_filled_by_any_name(name: str, info: ClassInfo, ctx: Context) -> bool:
    """Return whether a method of a class, or of one that it derives from, may fill the attribute `name` so."""
    for ancestor in ctx.inference.mro(info):
        inside = ctx.elsewhere(ancestor.module)
        for call in inside.module.index.calls_by_name.get("getattr", ()):
            own = inside.module.index.class_at(call) is ancestor.node and _names_own(call, name)
            if own and _is_filled(call, inside):
                return True
    return False


def _names_own(call: ast.Call, name: str) -> bool:
    """`getattr(self, key)`, `getattr(self, f"rows_{i}")` for `rows_1`."""
    if len(call.args) < 2 or getattr(call.args[0], "id", "") != "self":
        return False
    key = call.args[1]
    start = key.values[0] if isinstance(key, ast.JoinedStr) and key.values else key
    if not isinstance(start, ast.Constant):
        return True
    return name.startswith(str(start.value)) if start is not key else start.value == name


def _is_filled(call: ast.Call, ctx: Context) -> bool:
    """`getattr(self, key)[step] = value`, and no `getattr(self, key)(x)`."""
    around = ctx.parent(call)
    return not (isinstance(around, ast.Call) and around.func is call) and fate(call, ctx)[0] in _FILLS
