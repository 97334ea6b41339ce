"""Do messages between processes make up for fresh memory: is it cut off where they come, or replaced by what comes?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, identifier, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.linter.analysis.context import Context

    _Sent = tuple[ast.Call, Context]

# They hand on what they are given as it is; `all_reduce` and the like compute with it.
_SENDING = frozenset(
    f"torch.distributed.{name}"
    for name in ("all_gather", "all_gather_into_tensor", "gather", "all_to_all_single", "send", "isend")
)
_RECEIVING = frozenset(f"torch.distributed.{name}" for name in ("broadcast", "recv", "irecv"))
_ASKING = frozenset({"torch.distributed.is_available", "torch.distributed.is_initialized"})
_MOST_STEPS = 4  # from function to function, and from name to name


def is_cut_off_by_receivers(joined: ast.expr, ctx: Context) -> bool:
    """`dist.all_gather(parts, torch.cat((x, x.new_empty(most - n))))`, and then `part[:n]` of each.

    All processes have to send as much; what comes is cut by the function that sends, or by one around it.
    """
    sent = list(_sent(joined, ctx, _MOST_STEPS))
    return bool(sent) and all(found is not None and _cuts(*found) for found in sent)


def _sent(node: ast.expr, ctx: Context, steps: int) -> Iterator[_Sent | None]:
    """Yield each call that sends what `node` gives; None where something else may be done with it."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.keyword):
        parent = ctx.parent(parent)
    if fate(node, ctx)[0] is Fate.UNTOUCHED:
        return  # `rows.shape`, `torch.empty_like(rows)`
    if not steps:
        yield None
    elif isinstance(parent, ast.IfExp) and parent.test is not node:
        yield from _sent(parent, ctx, steps)
    elif isinstance(parent, ast.Call) and node in arguments_of(parent):
        yield from _sent_by_call(node, parent, ctx, steps)
    elif isinstance(parent, ast.Return) and (function := ctx.function(node)) is not None:
        for site in calls_of(function, ctx):
            yield from _sent(site[1], site[0], steps - 1) if site is not None else (None,)
    elif (binding := ctx.binding(node)) is not None and isinstance(binding.scope.node, FUNCTIONS):
        for use in ctx.flow(node).uses(binding):
            yield from _sent(use, ctx, steps - 1)
    else:
        yield None


def _sent_by_call(
    node: ast.expr, call: ast.Call, ctx: Context, steps: int
) -> Iterator[tuple[ast.Call, Context] | None]:
    if not _SENDING.isdisjoint(ctx.callees(call)):
        yield call, ctx
        return
    called = list(functions_called(ctx.inference, call))
    if len(called) != 1:
        yield None
        return
    inside, function = ctx.elsewhere(called[0][0]), called[0][1]
    name = parameter_given(function, call, node, skip_self=isinstance(call.func, ast.Attribute))
    bindings = inside.module.index.scopes[function].bindings[name] if name is not None else []
    if len(bindings) != 1 or not isinstance(bindings[0].node, ast.arg):
        yield None
        return
    for use in inside.flow(function.body[0]).uses(bindings[0]):
        yield from _sent(use, inside, steps - 1)


def _cuts(call: ast.Call, ctx: Context) -> bool:
    """`part[:n]`, `whole[i * most : i * most + n]`, with an end that is no number, after what was sent has come."""
    around = [parent for parent in ctx.ancestors(call) if isinstance(parent, FUNCTIONS)]
    slices = (part for part in walk(around[-1]) if isinstance(part, ast.Slice)) if around else ()
    return any(part.upper is not None and not isinstance(part.upper, (ast.Constant, ast.UnaryOp)) for part in slices)


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


def tests_of_reception(
    writes: Sequence[ast.expr], others: Sequence[ast.AST], read: ast.AST, ctx: Context
) -> Iterator[ast.If]:
    """Yield the `if dist.is_initialized():` around `dist.broadcast(out, 0)` after `if rank == 0: out = draw(n)`.

    Where nobody sends, the process is the only one, and so the first.
    """
    around = set(ctx.ancestors(read))
    if not any(_is_of_first_process(node, ctx) for node in (*writes, *others)):
        return
    for write in writes:
        if isinstance(write, ast.Name) and _is_received(write, ctx):
            tests = (parent for parent in ctx.ancestors(write) if isinstance(parent, ast.If) and parent not in around)
            yield from (parent for parent in tests if _asks_for_others(parent.test, ctx))


def _is_of_first_process(node: ast.AST, ctx: Context) -> bool:
    """`if rank == 0:`, `if dist.get_rank() == 0:`."""
    tests = (test for test, holds in ctx.module.index.branches_around(node) if holds and isinstance(test, ast.Compare))
    return any(
        isinstance(test.ops[0], ast.Eq) and ctx.constant(test.comparators[0]) == 0 and _is_rank(test.left)
        for test in tests
    )


def _is_rank(node: ast.expr) -> bool:
    return "rank" in identifier(node.func if isinstance(node, ast.Call) else node)


def _asks_for_others(test: ast.expr, ctx: Context) -> bool:
    """`dist.is_available() and dist.is_initialized()`, and nothing beside it."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return all(isinstance(part, ast.Call) and not _ASKING.isdisjoint(ctx.callees(part)) for part in parts)
