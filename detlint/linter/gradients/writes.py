"""What is done to a variable in its file: what is written into it, and whether it is asked for a gradient."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Methods that write into their receiver: those of tensors in place, and those that make a list longer.
_WRITING = re.compile(r"[a-z]\w*_|append|extend|insert")


def written_into(node: ast.Name, ctx: Context) -> Iterator[ast.expr]:
    """Yield what the function writes into the tensor or list of a name: `x[i] = y`, `x[:3].add_(y)`, `x.append(y)`."""
    for use in ctx.module.index.uses_of(node):
        place = ctx.module.index.entry_of(use)
        parent = ctx.parent(place)
        if isinstance(parent, (ast.Assign, ast.AugAssign)) and parent.value is not place:
            yield parent.value
        elif isinstance(parent, ast.Attribute) and _WRITING.fullmatch(parent.attr):
            call = ctx.parent(parent)
            yield from call.args if isinstance(call, ast.Call) and call.func is parent else ()


def asks_for_gradient(use: ast.Name | ast.Attribute, ctx: Context) -> bool:
    """`adv_images.requires_grad = True`, `adv_images.requires_grad_()`."""
    attribute = ctx.parent(use)
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in ("requires_grad", "requires_grad_"):
        return False
    said = ctx.parent(attribute)
    if isinstance(said, ast.Call):
        return said.func is attribute and not (said.args and ctx.constant(said.args[0]) is False)
    return isinstance(attribute.ctx, ast.Store) and not (
        isinstance(said, ast.Assign) and ctx.constant(said.value) is False
    )


def is_added_unrecorded(value: ast.expr, ctx: Context) -> bool:
    """Is it the `x` of `total[i] += x` under no_grad? What a list gets there keeps its own history."""
    return isinstance(ctx.parent(value), ast.AugAssign) and without_gradients(ctx.module, value)


def is_fixed(parameter: ast.Call, ctx: Context) -> bool:
    """`nn.Parameter(table, requires_grad=False)`: kept with the weights, and not trained."""
    named = [keyword.value for keyword in parameter.keywords if keyword.arg == "requires_grad"]
    return any(ctx.constant(asked) is False for asked in named or parameter.args[1:2])


def registers_buffer(maker: ast.AST | None) -> bool:
    """`self.register_buffer("table", table)`."""
    return (
        isinstance(maker, ast.Call) and isinstance(maker.func, ast.Attribute) and maker.func.attr == "register_buffer"
    )


def makes_parameters(function: FunctionNode) -> bool:
    """Does a function make something that asks for a gradient: `nn.Parameter(…)`, `x.requires_grad_()`?"""
    for part in walk(function):
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if name in ("Parameter", "requires_grad_"):
            return True
        if name == "requires_grad" and isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            return True
    return False
