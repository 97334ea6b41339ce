"""Where is read what was put away: in a dict that a file looks things up in again, in a list that ranks hand on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import is_used_elsewhere
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_SENDING = "broadcast_object_list"  # gives each rank what stands in a list of one of them


def entries_read(memo: ast.expr, ctx: Context) -> list[ast.expr] | None:
    """Return what looks up an entry of `LISTED`, a dict of this file alone; None where it may be read otherwise."""
    index = ctx.module.index
    made = index.bindings_of(memo) if isinstance(memo, ast.Name) else ()
    own = all(each.kind is BindingKind.ASSIGN and isinstance(each.scope.node, ast.Module) for each in made)
    if not isinstance(memo, ast.Name) or not made or not own or is_used_elsewhere(memo.id, ctx):
        return None
    entries: list[ast.expr] = []
    for use in index.uses_of(memo):
        item = index.parents.get(use)
        call = index.parents.get(item) if isinstance(item, ast.Attribute) and item.attr == "get" else None
        if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Load):
            entries.append(item)
        elif isinstance(call, ast.Call):
            entries.append(call)
        elif not isinstance(item, ast.Subscript) and not asks_whether_any(use, item):
            return None
    return entries or None


def taken_from_list(box: ast.List, ctx: Context) -> list[ast.expr] | None:
    """Return `payload[0]` of `payload = [names]`; None where anything but to hand it on is done with the list."""
    index = ctx.module.index
    statement = index.parents.get(box)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    binding = ctx.binding(box)
    if not isinstance(target, ast.Name) or binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return None
    around = [index.parents.get(use) for use in ctx.flow(box).uses(binding)]
    items: list[ast.expr] = [part for part in around if isinstance(part, ast.Subscript)]
    others = [part for part in around if part not in items]
    sent = all(isinstance(part, ast.Call) and identifier(part.func) == _SENDING for part in others)
    return items if items and sent else None


def asks_whether_any(node: ast.expr, test: ast.AST | None) -> bool:
    """`name in names`, `names is None`."""
    if not isinstance(test, ast.Compare):
        return False
    searched = node is not test.left and all(isinstance(op, (ast.In, ast.NotIn)) for op in test.ops)
    return searched or all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)
