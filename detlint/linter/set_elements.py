"""Does the code compute with the elements of a set as with numbers? Then their order is the same in every process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detlint.linter.context import Context

# With a number on the other side these work on numbers alone; `*` and `%` also work on text.
_ARITHMETIC = (ast.Add, ast.Sub, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, ast.RShift)
_LISTING = frozenset({"builtins.list", "builtins.tuple", "builtins.iter", "builtins.next"})
_COUNTING = frozenset({"builtins.range", "builtins.chr"})
_OF_NUMBERS = frozenset(
    {f"torch.{name}" for name in ("tensor", "as_tensor", "LongTensor", "IntTensor", "FloatTensor", "DoubleTensor")}
    | {f"torch.utils.data.{name}" for name in ("Subset", "SubsetRandomSampler")}
    | {f"torch.utils.data.{module}" for module in ("dataset.Subset", "sampler.SubsetRandomSampler")}
)
"""What takes lists of numbers only."""


def used_as_numbers(iterated: ast.expr, ctx: Context) -> bool:
    """Return whether an element of the set is counted with: `x - 1`, `x -= 1`, `x < 3`, `range(x)`, `tensor[x]`."""
    if _is_counted_on(iterated, ctx) or _is_given_as_numbers(iterated, ctx):
        return True
    return any(_counts_with(element, ctx) and not ctx.is_tensor(element) for element in _elements(iterated, ctx))


def _is_counted_on(iterated: ast.expr, ctx: Context) -> bool:
    """`for row in rows: row -= 1`."""
    loop = ctx.parent(iterated)
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return False
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == loop.target.id
        and isinstance(node.op, _ARITHMETIC)
        and is_literal_number(node.value)
        for node in ast.walk(loop)
    )


def _is_given_as_numbers(iterated: ast.expr, ctx: Context) -> bool:
    """`torch.tensor(list(ids))`, `Subset(data, list(ids))`."""
    for parent in ctx.ancestors(iterated):
        if not isinstance(parent, ast.Call) or iterated is parent.func:
            return False
        names = ctx.callees(parent)
        if not _LISTING.intersection(names):
            return bool(_OF_NUMBERS.intersection(names))
    return False


def _elements(iterated: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield the places where an element is read: the variable of a loop, or one that is picked."""
    parent = ctx.parent(iterated)
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is iterated:
        inside = ctx.parent(parent) if isinstance(parent, ast.comprehension) else parent
        if isinstance(parent.target, ast.Name) and inside is not None:
            yield from _loads(parent.target.id, inside)
        return
    picked = _picked(iterated, ctx)
    if picked is not None:
        yield picked
        binding = ctx.binding(picked)
        if binding is not None:
            yield from ctx.flow(picked).uses(binding)


def _picked(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the expression that picks one: `list(ids)[0]`, `next(iter(ids))`, `ids.pop()`."""
    for parent in ctx.ancestors(node):
        if isinstance(parent, ast.Subscript):
            return parent if isinstance(parent.slice, ast.Constant) else None
        if isinstance(parent, ast.Attribute) and parent.attr == "pop":
            call = ctx.parent(parent)
            return call if isinstance(call, ast.Call) else None
        if not isinstance(parent, ast.Call) or not _LISTING.intersection(ctx.callees(parent)):
            return None
        if "builtins.next" in ctx.callees(parent):
            return parent
    return None


def _loads(name: str, inside: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(inside):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def _counts_with(element: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(element)
    if isinstance(parent, ast.BinOp):
        other = parent.right if parent.left is element else parent.left
        return isinstance(parent.op, _ARITHMETIC) and is_literal_number(other)
    if isinstance(parent, ast.Compare):
        sides = [side for side in (parent.left, *parent.comparators) if side is not element]
        return any(is_literal_number(side) or ctx.is_tensor(side) for side in sides)
    if isinstance(parent, ast.Subscript):
        return parent.slice is element and ctx.is_tensor(parent.value)
    if isinstance(parent, ast.Call):
        return parent.func is not element and bool(_COUNTING.intersection(ctx.callees(parent)))
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)


def is_literal_number(node: ast.expr) -> bool:
    """Return whether a number is written out: `1`, `-0.5`."""
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)
