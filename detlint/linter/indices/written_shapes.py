"""Which shape is written where a tensor is made or viewed: `x.view(-1, 1)`, `x[:, None]`, `torch.zeros((n, 1))`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.only_values import only_value
from detlint.linter.indices.positions import SAME_ELEMENTS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 6
_SHAPING = frozenset({"reshape", "view"})
_FLATTENING = frozenset({"flatten", "ravel", *_SHAPING})
_FACTORIES = frozenset(f"torch.{name}" for name in ("empty", "full", "ones", "rand", "randint", "randn", "zeros"))


def written_shape(tensor: ast.expr, ctx: Context) -> list[object]:
    """Return the sizes of a tensor as far as they are written, MISSING for others; nothing where none are.

    What `[:, None]` and `unsqueeze(1)` are of is taken to be as small as that allows: one row of numbers.
    """
    made = _made(tensor, ctx)
    if isinstance(made, ast.Subscript):
        items = made.slice.elts if isinstance(made.slice, ast.Tuple) else []
        plain = all(isinstance(item, ast.Slice) or ctx.constant(item) is None for item in items)
        return [MISSING if isinstance(item, ast.Slice) else 1 for item in items] if plain else []
    if not isinstance(made, ast.Call):
        return []
    if not _FACTORIES.isdisjoint(ctx.callees(made)):
        given = [*made.args, *(word.value for word in made.keywords if word.arg == "size")]
        sizes = next((part.elts for part in given if isinstance(part, (ast.Tuple, ast.List))), [])
        return [ctx.constant(size) for size in sizes]
    if not isinstance(made.func, ast.Attribute):
        return []
    if made.func.attr == "unsqueeze" and len(made.args) == 1:
        place = ctx.constant(made.args[0])
        return [MISSING, 1] if place in (1, -1) else [1, MISSING] if place in (0, -2) else []
    return [ctx.constant(size) for size in sizes_written(made)] if made.func.attr in _SHAPING else []


def is_flat(tensor: ast.expr, ctx: Context) -> bool:
    """`weight.abs().flatten()`, `scores.view(-1)`: has a tensor one dimension, as it was made?"""
    made = _made(tensor, ctx)
    if not isinstance(made, ast.Call) or identifier(made.func) not in _FLATTENING:
        return False
    return [ctx.constant(size) for size in sizes_written(made)] in ([], [-1])


def _made(tensor: ast.expr, ctx: Context) -> ast.expr:
    """Return what a name holds, seen through copies to a device."""
    for _ in range(_MAX_STEPS):
        value = only_value(ctx.module, tensor) if isinstance(tensor, ast.Name) else None
        if (
            isinstance(tensor, ast.Call)
            and isinstance(tensor.func, ast.Attribute)
            and tensor.func.attr in SAME_ELEMENTS
        ):
            value = tensor.func.value
        if value is None:
            break
        tensor = value
    return tensor


def sizes_written(view: ast.Call) -> list[ast.expr]:
    """Return the arguments of `view(2, -1)` and `view((2, -1))`."""
    only = view.args[0] if len(view.args) == 1 else None
    return only.elts if isinstance(only, (ast.Tuple, ast.List)) else view.args
