"""Is a tensor made with no elements at all, as its sizes say: `torch.empty(0)`, `torch.empty((0,) + x.shape[1:])`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

SIZES = frozenset({"size", "shape"})  # what torch and NumPy call them
_MAX_STEPS = 4
_COPIES = frozenset(
    {"torch.Size", "builtins.tuple", "builtins.list", "numpy.array", "numpy.append", "numpy.concatenate"}
)


def has_no_elements(made: ast.Call, ctx: Context) -> bool:
    """Return whether one of the sizes that a call names is zero."""
    sizes = [*made.args, *(keyword.value for keyword in made.keywords if keyword.arg in SIZES)]
    return any(_is_zero(size, ctx) or _holds_zero(size, ctx, _MAX_STEPS) for size in sizes)


def _is_zero(size: ast.expr, ctx: Context) -> bool:
    number = ctx.constant(size)
    return type(number) is int and number == 0


def _holds_zero(sizes: ast.expr, ctx: Context, steps: int) -> bool:
    """`torch.Size([0])`, `(*x.shape[:-1], 0)`, `[0] + list(rest)`, `(0,) * n`, `np.append(0, x)`, also by name."""
    if steps == 0:
        return False
    if isinstance(sizes, ast.Starred):
        return _holds_zero(sizes.value, ctx, steps)
    if isinstance(sizes, (ast.Tuple, ast.List)):
        return any(_is_zero(part, ctx) or _holds_zero(part, ctx, steps - 1) for part in sizes.elts)
    if isinstance(sizes, ast.BinOp) and isinstance(sizes.op, (ast.Add, ast.Mult)):
        return any(_holds_zero(side, ctx, steps - 1) for side in (sizes.left, sizes.right))
    if isinstance(sizes, ast.Call):
        parts = sizes.args if not _COPIES.isdisjoint(ctx.callees(sizes)) else []
        return any(_is_zero(part, ctx) or _holds_zero(part, ctx, steps - 1) for part in parts)
    if isinstance(sizes, ast.Name) and _is_given_zero(sizes, ctx):
        return True
    named = only_value(ctx.module, sizes) if isinstance(sizes, (ast.Name, ast.Attribute)) else None
    return named is not None and _holds_zero(named, ctx, steps - 1)


def _is_given_zero(sizes: ast.Name, ctx: Context) -> bool:
    """`shape = list(x.shape)`, `shape[1] = 0` on every way to where the sizes are used, and nothing sets it again."""
    bindings = ctx.module.definitions(sizes)
    if len(bindings) != 1 or ctx.function(bindings[0].node) is not ctx.function(sizes):
        return False
    flow = ctx.flow(sizes)
    uses = flow.uses(bindings[0])
    if any(isinstance(ctx.parent(use), ast.Attribute) for use in uses):
        return False  # `shape.pop(1)`
    stores = [store for use in uses if (store := _element_set(use, ctx)) is not None]
    for store in stores:
        places = (_place(store, ctx), None)
        others = [other for other in stores if other is not store and _place(other, ctx) in places]
        if _is_zero(store.value, ctx) and not any(flow.path(store, other) for other in others):
            return not flow.path(bindings[0].node, sizes, avoiding=[store])
    return False


def _element_set(use: ast.Name, ctx: Context) -> ast.Assign | None:
    """Return `shape[1] = 0` around `shape`."""
    element = ctx.parent(use)
    statement = ctx.parent(element) if isinstance(element, ast.Subscript) else None
    return statement if isinstance(statement, ast.Assign) and element in statement.targets else None


def _place(store: ast.Assign, ctx: Context) -> object:
    """Return 1 of `shape[1] = 0`, None where it is not written out."""
    places = [ctx.constant(target.slice) for target in store.targets if isinstance(target, ast.Subscript)]
    return places[0] if len(places) == 1 and isinstance(places[0], int) else None
