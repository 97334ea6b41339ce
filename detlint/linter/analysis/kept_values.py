"""What does a file keep under an attribute: `context.rows = rows`, `self.rows[name] = rows`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import is_set_from_outside
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def kept_under(attribute: ast.Attribute, ctx: Context) -> list[ast.expr]:
    """Return all that the file sets an attribute of that name to; nothing where something else may set it too."""
    values: list[ast.expr] = []
    for place in _stores(attribute.attr, ctx):
        statement = ctx.parent(place)
        if not isinstance(statement, ast.Assign) or place not in statement.targets:
            return []
        values.append(statement.value)
    return [] if is_set_from_outside(attribute.attr, ctx) else values + _registered(attribute.attr, ctx)


def entries_under(container: ast.Attribute, ctx: Context) -> list[ast.expr]:
    """Return what the file puts into the entries of a container of its own that starts empty: `self.rows = {}`."""
    made = kept_under(container, ctx)
    if not is_own(container) or not made or not all(map(_is_empty, made)):
        return []
    values: list[ast.expr] = []
    for use in ctx.module.index.names_used.get(container.attr, ()):
        entry = ctx.parent(use)
        if isinstance(entry, ast.Subscript) and entry.value is use and isinstance(entry.ctx, ast.Store):
            statement = ctx.parent(entry)
            if not isinstance(statement, ast.Assign) or entry not in statement.targets:
                return []
            values.append(statement.value)
    return values


def _stores(name: str, ctx: Context) -> list[ast.Attribute]:
    uses = ctx.module.index.names_used.get(name, ())
    return [use for use in uses if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Store)]


def _registered(name: str, ctx: Context) -> list[ast.expr]:
    """Return the `rows` of `self.register_buffer("rows", rows)`."""
    calls = (call for call in ctx.module.index.calls_by_name.get("register_buffer", ()) if len(call.args) > 1)
    return [call.args[1] for call in calls if ctx.constant(call.args[0]) == name]


def _is_empty(container: ast.expr) -> bool:
    """`{}`, `dict()`, `nn.ParameterDict({})`, `BufferDict(persistent=False)`."""
    if isinstance(container, ast.Dict):
        return not container.keys
    return isinstance(container, ast.Call) and all(map(_is_empty, container.args))
