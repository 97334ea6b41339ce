"""Does an index name each place twice at most? A gradient of two parts is the same in either order.

So for what starts at zero: what is added to something else may differ.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.indices.positions import SAME_ELEMENTS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_JOINS = frozenset(f"torch.{name}" for name in ("stack", "cat", "concat", "concatenate", "hstack", "vstack"))
_VIEWS = frozenset({"view", "reshape", "flatten", "ravel", "t", "transpose", "permute", "squeeze", "unsqueeze"})
# What one number is called, as no tensor is.
_SIZE = re.compile(r"(^|_)(size|width|height|length|len|stride|step|span)$")
_MOST = 2
_MAX_STEPS = 6


def names_twice_at_most(index: ast.expr | None, ctx: Context) -> bool:
    """`torch.stack([starts, starts + width - 1], dim=1).view(-1)` after `starts = torch.arange(n)`."""
    joined = _viewed(index, ctx)
    if not isinstance(joined, ast.Call) or _JOINS.isdisjoint(ctx.callees(joined)):
        return False
    ranges = joined.args[0] if joined.args else None
    if not isinstance(ranges, (ast.List, ast.Tuple)) or not 0 < len(ranges.elts) <= _MOST:
        return False
    return all(_is_range(part, ctx) for part in ranges.elts)


def _viewed(node: ast.expr | None, ctx: Context) -> ast.expr | None:
    """Return what an index is a view of, seen through names; what repeats its elements is no view."""
    for _ in range(_MAX_STEPS):
        if isinstance(node, ast.Name):
            node = only_value(ctx.module, node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _VIEWS | SAME_ELEMENTS
            and ctx.is_kind(node.func.value, Kind.TENSOR) is not Truth.NO
        ):
            node = node.func.value
        else:
            break
    return node


def _is_range(node: ast.expr, ctx: Context) -> bool:
    """`torch.arange(n)`, and as far on everywhere: `starts + width - 1`."""
    made = _viewed(node, ctx)
    if isinstance(made, ast.BinOp) and isinstance(made.op, (ast.Add, ast.Sub)):
        return _is_range(made.left, ctx) and _is_one_step(made.right, ctx)
    return isinstance(made, ast.Call) and "torch.arange" in ctx.callees(made)


def _is_one_step(node: ast.expr, ctx: Context) -> bool:
    """Is it one number, and no tensor of one for each place? `width - 1`, `self.width`."""
    if isinstance(node, ast.BinOp):
        return _is_one_step(node.left, ctx) and _is_one_step(node.right, ctx)
    if type(ctx.constant(node)) is int or ctx.is_kind(node, Kind.NUMBER) is Truth.YES:
        return True
    unknown = {value.kind for value in ctx.values(node)} <= {Kind.UNKNOWN}
    return unknown and _SIZE.search(identifier(node)) is not None
