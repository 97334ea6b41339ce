"""What einops makes of a tensor: its pattern spells the axes out."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_FUNCTIONS = frozenset({"einops.rearrange", "einops.reduce", "einops.repeat"})
_AXIS = re.compile(r"\([^()]*\)|\.\.\.|\w+")


def axes(node: ast.expr, ctx: Context) -> list[str] | None:
    """Return the axes of `rearrange(x, "b n (h d) -> (b h) n d")`, here `(b h)`, `n`, `d`; None of anything else."""
    if not isinstance(node, ast.Call) or len(node.args) < 2 or _FUNCTIONS.isdisjoint(ctx.callees(node)):
        return None
    pattern = ctx.constant(node.args[1])
    if not isinstance(pattern, str) or "->" not in pattern:
        return None
    return _AXIS.findall(pattern.partition("->")[2])
