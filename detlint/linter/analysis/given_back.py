"""Where does what an expression makes come out? Of what a function returns, that is where the function is called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 3  # helpers that call each other


def given_back(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> list[tuple[ast.expr, Context]]:
    """Return each call of the function that returns `node`, else `node`; nothing where a call is out of sight.

    `nn.MaxPool2d(2)` of `def pool(): return nn.MaxPool2d(2)` comes out at `pool()`, and so it does where the function
    puts it into a variable before.
    """
    function = ctx.function(node)
    if function is None or not _is_returned(node, ctx):
        return [(node, ctx)]
    found: list[tuple[ast.expr, Context]] = []
    for site in calls_of(function, ctx) if steps and function.name != "forward" else ():
        further = given_back(site[1], site[0], steps - 1) if site is not None else []
        if not further:
            return []
        found += further
    return found


def _is_returned(node: ast.expr, ctx: Context) -> bool:
    """`return pool`, after `pool = nn.MaxPool2d(2)` that nothing else uses too."""
    if isinstance(ctx.parent(node), ast.Return):
        return True
    binding = ctx.binding(node) if isinstance(ctx.parent(node), ast.Assign) else None
    uses = ctx.flow(node).uses(binding) if binding is not None else []
    return bool(uses) and all(isinstance(ctx.parent(use), ast.Return) for use in uses)
