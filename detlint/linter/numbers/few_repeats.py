"""Are rows repeated twice at most, as it is written out? The sum of two gradients is the same in either order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.gradients.writes import written_into
from detlint.linter.indices.positions import SAME_ELEMENTS, TENSORS
from detlint.linter.source.names import BindingKind, unpacked

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_FEW = (0, 1, 2)
_MAX_STEPS = 6


def repeats_twice_at_most(counts: ast.expr | None, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`torch.tensor([2, 1, 2])`, `counts = [1] * n` after `counts[-1] = 2`, tensors made of such a list."""
    if counts is None or steps == 0:
        return False
    if isinstance(counts, ast.Name):
        return _is_made_few(counts, ctx, steps - 1)
    if isinstance(counts, (ast.List, ast.Tuple)):
        return bool(counts.elts) and all(_is_few(count, ctx) for count in counts.elts)
    if isinstance(counts, ast.BinOp):
        sides = (counts.left, counts.right)
        if isinstance(counts.op, ast.Mult):
            return any(isinstance(side, ast.List) and repeats_twice_at_most(side, ctx, steps - 1) for side in sides)
        return isinstance(counts.op, ast.Add) and all(_is_list(side, ctx, steps - 1) for side in sides)
    if not isinstance(counts, ast.Call):
        return False
    if not TENSORS.isdisjoint(ctx.callees(counts)):
        return bool(counts.args) and repeats_twice_at_most(counts.args[0], ctx, steps - 1)
    method = counts.func if isinstance(counts.func, ast.Attribute) else None
    return method is not None and method.attr in SAME_ELEMENTS and repeats_twice_at_most(method.value, ctx, steps - 1)


def _is_made_few(counts: ast.Name, ctx: Context, steps: int) -> bool:
    found = ctx.module.definitions(counts)
    made = [unpacked(binding) if binding.kind is BindingKind.ASSIGN else None for binding in found]
    few = bool(made) and all(value is not None and repeats_twice_at_most(value, ctx, steps) for value in made)
    return few and all(_is_few(written, ctx) for written in written_into(counts, ctx))


def _is_few(count: ast.expr, ctx: Context) -> bool:
    return ctx.constant(count) in _FEW


def _is_list(side: ast.expr, ctx: Context, steps: int) -> bool:
    """`[2]` and `[1] * n` of `[2] + [1] * n`: lists are put together there, tensors would be added."""
    listed = isinstance(side, ast.List) or (isinstance(side, ast.BinOp) and not isinstance(side.left, ast.Name))
    return listed and repeats_twice_at_most(side, ctx, steps)
