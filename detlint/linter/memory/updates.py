"""Is an attribute set out of what it holds already, so that fresh memory stays what it was?"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def keeps_a_part(target: ast.Attribute, name: str, ctx: Context) -> bool:
    """`self.mean = 0.9 * self.mean + …` starts from what is there; `torch.zeros_like(self.mean)` looks at its shape."""
    statement = ctx.statement(target)
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign):
        return True
    own = (part for part in ast.walk(value) if isinstance(part, ast.Attribute)) if isinstance(value, ast.expr) else ()
    return any(part.attr == name and fate(part, ctx)[0] is not Fate.UNTOUCHED for part in own)


def is_made_of_itself(node: ast.Attribute, name: str, ctx: Context) -> bool:
    """`self.mean[:] = 0.9 * self.mean + …`, `self.mean.copy_(0.9 * self.mean + …)`; not `torch.where(seen, …)`.

    So is `self.scale.data = self.scale.data.clamp(0, 1)`.
    """
    place = ctx.parent(node)
    call = ctx.parent(place) if isinstance(place, ast.Attribute) else None
    if isinstance(place, (ast.Subscript, ast.Attribute)) and isinstance(place.ctx, ast.Store):
        statement = ctx.statement(node)
        values = [statement.value] if isinstance(statement, (ast.Assign, ast.AugAssign)) else []
    else:
        values = arguments_of(call) if isinstance(call, ast.Call) and call.func is place else []
    parts = [part for value in values for part in walk(value)]
    own = (part for part in parts if isinstance(part, ast.Attribute) and is_own(part) and part.attr == name)
    kept = any(fate(part, ctx)[0] is not Fate.UNTOUCHED for part in own)
    return kept and all(identifier(part) != "where" for part in parts)


def is_put_back(value: ast.expr, name: str, ctx: Context) -> bool:
    """`self.mean = self.mean.to(device)`, `self.queue[1:] = self.queue[:-1].clone()`: no other name for the memory."""
    statement = ctx.parent(value)
    return isinstance(statement, ast.Assign) and _sets(statement, name)


def updates(place: ast.expr, name: str, ctx: Context) -> bool:
    """`self.mean.mul_(0.9)` and `self.mean = 0.9 * self.mean + …`, of all that reads an attribute."""
    in_place = isinstance(place, ast.Attribute) and place.attr.endswith("_")
    statement = ctx.statement(place)
    return in_place or (isinstance(statement, ast.Assign) and _sets(statement, name))


def _sets(statement: ast.Assign, name: str) -> bool:
    """`self.name = …`, `self.name[0] = …`."""
    target = statement.targets[0]
    if isinstance(target, ast.Subscript):
        target = target.value
    return len(statement.targets) == 1 and is_own(target) and identifier(target) == name


def sets_nothing(target: ast.Attribute, ctx: Context) -> bool:
    """`self.bias = None`, `del self.bias`, where there is to be none; `self.bias: Tensor`, which only tells a type."""
    statement = ctx.statement(target)
    if isinstance(target.ctx, ast.Del) or (isinstance(statement, ast.AnnAssign) and statement.value is None):
        return True
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Constant) and value.value is None


def are_alternatives(one: ast.AST, other: ast.AST, ctx: Context) -> bool:
    """Do two places stand in two branches of one `if`, of which one is run?"""
    around = {parent: child for child, parent in pairwise((one, *ctx.ancestors(one)))}
    child = other
    for parent in ctx.ancestors(other):
        if parent in around:
            first = around[parent]
            branches = (parent.body, parent.orelse) if isinstance(parent, ast.If) else ()
            return any(first in branch for branch in branches) and any(
                child in branch and first not in branch for branch in branches
            )
        child = parent
    return False
