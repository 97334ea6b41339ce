"""Do messages between processes make up for fresh memory: is what was made of it replaced by what comes?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.nodes import arguments_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_RECEIVING = frozenset(f"torch.distributed.{name}" for name in ("broadcast", "recv", "irecv"))
_MOST_STEPS = 4  # from name to name


def is_received_later(read: ast.expr, ctx: Context, steps: int = _MOST_STEPS) -> bool:
    """`values = values[:, :n] * mask` on the way to `dist.broadcast(values, src=last)`: its form alone is made there.

    Nothing else may be done with what was made of the memory before another process has sent what it made.
    """
    statement = ctx.statement(read)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    bindings = ctx.module.index.bindings_of(target) if isinstance(target, ast.Name) else ()
    made = next((binding for binding in bindings if binding.node is target), None)
    if made is None or not steps:
        return False
    flow = ctx.flow(made.node)
    uses = [use for use in flow.uses(made) if fate(use, ctx)[0] is not Fate.UNTOUCHED]
    received = [use for use in uses if _is_received(use, ctx)]
    others = (use for use in uses if use not in received)
    before = [use for use in others if use not in flow or flow.path(statement, use, avoiding=received)]
    return bool(uses) and all(is_received_later(use, ctx, steps - 1) for use in before)


def _is_received(use: ast.Name, ctx: Context) -> bool:
    call = ctx.parent(use)
    call = ctx.parent(call) if isinstance(call, ast.keyword) else call
    return isinstance(call, ast.Call) and use in arguments_of(call) and not _RECEIVING.isdisjoint(ctx.callees(call))
