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
    named = only_value(ctx.module, sizes) if isinstance(sizes, (ast.Name, ast.Attribute)) else None
    return named is not None and _holds_zero(named, ctx, steps - 1)
