"""Is a list only shuffled so that several jobs take different items first? Each skips what another has done already."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.own_names import made_names
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, stored_names, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_THERE = frozenset({"exists", "is_file", "is_dir", "isfile", "isdir"})
_COLLECTS = frozenset({"append", "extend", "insert"})
_STEPS = 3


def is_shuffled_to_spread(shuffle: ast.Call, ctx: Context) -> bool:
    """`shuffle(paths)`, and then `for path in paths: if out(path).exists(): continue`, where no order matters else."""
    items = shuffle.args[0] if shuffle.args and isinstance(ctx.parent(shuffle), ast.Expr) else None
    if not isinstance(items, ast.Name) or ctx.function(shuffle) is None:
        return False
    bindings = ctx.module.definitions(items)
    uses = [use for binding in bindings for use in ctx.flow(shuffle).uses(binding) if use.lineno > shuffle.lineno]
    loops = [loop for use in uses for loop in _loops_over(use, ctx, _STEPS)]
    if not loops or not all(_skips_what_is_there(loop, ctx) and not _goes_on_with(loop) for loop in loops):
        return False
    return all(OrderTracer(ctx.module).destination(use) is None for use in uses)


def _loops_over(items: ast.expr, ctx: Context, steps: int) -> Iterator[ast.For]:
    """Yield the loops over a list, also through a bar that shows their progress."""
    parent = ctx.parent(items)
    if isinstance(parent, ast.For) and parent.iter is items:
        yield parent
    elif isinstance(parent, ast.Call) and parent.func is not items and steps:
        yield from _loops_over(parent, ctx, steps - 1)
    elif isinstance(parent, ast.Assign) and steps:
        binding = ctx.binding(items)
        if binding is not None and isinstance(binding.scope.node, FUNCTIONS):
            for use in ctx.flow(items).uses(binding):
                yield from _loops_over(use, ctx, steps - 1)


def _skips_what_is_there(loop: ast.For, ctx: Context) -> bool:
    names = made_names(loop, frozenset(stored_names(loop.target)), ctx)
    return any(
        isinstance(part, ast.If)
        and isinstance(part.body[-1], ast.Continue)
        and any(_asks_for(test, names) for test in walk(part.test))
        for part in walk(loop)
    )


def _goes_on_with(loop: ast.For) -> bool:
    """Does a loop collect anything, or end before its last item?"""
    return any(
        isinstance(part, (ast.AugAssign, ast.Break, ast.Return, ast.Yield))
        or (isinstance(part, ast.Call) and identifier(part.func) in _COLLECTS)
        for part in walk(loop)
    )


def _asks_for(test: ast.AST, names: frozenset[str]) -> bool:
    """`out.exists()`, `os.path.exists(out)` of what is made of an item."""
    if not isinstance(test, ast.Call) or identifier(test.func) not in _THERE:
        return False
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(test))
