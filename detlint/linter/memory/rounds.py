"""Writes that some rounds of a loop leave out, or that a loop may end before."""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.names import FOR_LOOPS, FUNCTIONS, LOOPS
from detlint.linter.source.nodes import identifier, names_in, stored_names, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Names of what says which places were written, and how far.
_RECORDS = re.compile(
    r"(^|_)(n|masks?|valid|lens?|lengths?|pads?|padding|counts?|num|sizes?|missing|used|filled|exists?|present|seen)(_|$)",
    re.I,
)
# Other processes fill what this one leaves out.
_OTHERS = re.compile(r"(^|_)(rank|ranks|world|worker|workers|shard|shards)(_|$)", re.I)
# What says how much room there is, more often than how much is needed.
_LIMIT = re.compile(r"(^|_)(max|limit|capacity|horizon|longest)(_|$|(?=\d))", re.I)
_FILLING = frozenset({"append", "add", "extend", "insert", "update"})


def some_rounds_leave_out(written: ast.Subscript, ctx: Context) -> bool:
    """`if row.known: out[i] = row.value`, `out[i, :len(row)] = row`, where nothing keeps which places those are."""
    statement, function = ctx.parent(written), ctx.function(written)
    loops = [parent for parent in ctx.ancestors(written) if isinstance(parent, FOR_LOOPS)]
    if not isinstance(statement, ast.Assign) or function is None or not loops or statement.targets != [written]:
        return False
    placed = names_in(written.slice)
    bound = set().union(*map(stored_names, loops[0].body))
    # What is worked out from several rows, `out[labels == label]`, may be all of them when the rounds are done.
    if placed.isdisjoint(names_in(loops[0].target)) or not placed.isdisjoint(bound):
        return False
    # Another loop around may come by the places that are left out: `for turn in …: for i in …: if i % 3 == turn:`.
    again = {name for loop in loops[1:] if placed.isdisjoint(names_in(loop.target)) for name in names_in(loop.target)}
    brought = set().union(*(names_in(loop.target) for loop in loops), bound) - again
    asked = _condition(statement, loops[0], brought, ctx)
    if asked is None and not _ends_with_row(written, brought):
        return False
    elsewhere = asked is not None and any(name in again or _OTHERS.search(name) for name in names_in(asked))
    return not elsewhere and not _keeps_record(function, loops[0], written, ctx)


def may_stop_early(written: ast.Subscript, ctx: Context) -> bool:
    """`out[n] = x` and `n += 1` in `while not done:`, or `out[t] = x` before `if done: break`, and none asks how far.

    So where the memory has room for as many rounds as there may be at most.
    """
    function = ctx.function(written)
    loop = next((parent for parent in ctx.ancestors(written) if isinstance(parent, LOOPS)), None)
    place = next(iter(written.slice.elts), None) if isinstance(written.slice, ast.Tuple) else written.slice
    made = only_value(ctx.module, written.value)
    if function is None or loop is None or not isinstance(place, ast.Name) or not isinstance(made, ast.Call):
        return False
    bounds = names_in(made) | {place.id}
    if not _has_room(made) or not _ends_at_will(loop, bounds) or next(ctx.module.index.branches_around(written), None):
        return False
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == place.id]
    return all(isinstance(use.ctx, ast.Store) or _names_place(use, ctx) for use in uses)


def _has_room(made: ast.Call) -> bool:
    sizes = [part for size in made.args for part in walk(size)]
    return any(
        _LIMIT.search(identifier(part))
        if isinstance(part, (ast.Name, ast.Attribute))
        else isinstance(part, ast.Constant)
        for part in sizes
    )


def _ends_at_will(loop: ast.For | ast.AsyncFor | ast.While, bounds: Set[str]) -> bool:
    """Does something end a loop that has nothing to do with its rounds or with the room that there is?"""
    if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return bounds.isdisjoint(names_in(loop.test))
    ends = [part for part in loop.body if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Break)]
    return bool(ends) and all(bounds.isdisjoint(names_in(end.test)) for end in ends)


def _names_place(use: ast.Name, ctx: Context) -> bool:
    """`n` of `out[n] = x`; whoever reads `out[:n]`, or gives `n` back, knows how far it was written."""
    around = ctx.parent(use)
    around = ctx.parent(around) if isinstance(around, ast.Tuple) else around
    return isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Store)


def _condition(statement: ast.stmt, loop: ast.AST, brought: Set[str], ctx: Context) -> ast.expr | None:
    """Return a condition on what the round brings, with no other branch, or that goes on to the next round."""
    inner: ast.stmt = statement
    around = list(ctx.ancestors(statement))
    if any(isinstance(parent, ast.While) for parent in around[: around.index(loop)]):
        return None  # which goes on until it is written
    for parent in around:
        if isinstance(parent, ast.If):
            return parent.test if not parent.orelse and not brought.isdisjoint(names_in(parent.test)) else None
        if not isinstance(parent, (ast.With, *FOR_LOOPS)) or inner not in parent.body:
            return None
        guards = [each for each in parent.body[: parent.body.index(inner)] if isinstance(each, ast.If)]
        tests = (guard.test for guard in guards if isinstance(guard.body[-1], ast.Continue) and not guard.orelse)
        found = next((test for test in tests if not brought.isdisjoint(names_in(test))), None)
        if found is not None or parent is loop:
            return found
        inner = parent
    return None


def _ends_with_row(written: ast.Subscript, brought: Set[str]) -> bool:
    """`out[i, :len(row)]`, `out[:row.shape[0], i]`."""
    parts = written.slice.elts if isinstance(written.slice, ast.Tuple) else []
    ends = (part.upper for part in parts if isinstance(part, ast.Slice) and part.lower is None and part.step is None)
    return any(
        end is not None and not isinstance(end, ast.Name) and not brought.isdisjoint(names_in(end)) for end in ends
    )


def _keeps_record(function: ast.AST, loop: ast.AST, written: ast.Subscript, ctx: Context) -> bool:
    """Does the loop fill or count something else, does the function speak of lengths or masks, or give two things?

    How large the memory is says nothing of how much of it was written.
    """
    known = {identifier(written.value), "len"} | _sizes(written, ctx)
    for part in walk(loop):
        if isinstance(part, ast.AugAssign) or (isinstance(part, ast.Call) and identifier(part.func) in _FILLING):
            return True
        stored = isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Store)
        if stored and part is not written:
            return True
    for part in walk(function):
        if isinstance(part, ast.Return) and isinstance(part.value, (ast.Tuple, ast.Dict)):
            return True
        name = part.arg if isinstance(part, ast.arg) else identifier(part) if isinstance(part, ast.Name) else ""
        if name not in known and _RECORDS.search(name):
            return True
        if isinstance(part, FUNCTIONS) and part is not function:
            return True
    return False


def _sizes(written: ast.Subscript, ctx: Context) -> Set[str]:
    made = only_value(ctx.module, written.value)
    return names_in(made) if made is not None else set()
