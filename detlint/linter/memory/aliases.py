"""Memory under another name: does that name share it or hold a copy, and what reads it there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.memory import memory_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Of the methods that give a view, these copy where the form leaves no other way.
_MAY_COPY = frozenset({"reshape", "flatten", "ravel"})


def reads_of_other_name(stored: ast.expr, ctx: Context) -> dict[ast.Name, tuple[Fate, ast.expr]]:
    """Return what reads `seen = mask.unsqueeze(1)`, where all that is done with `seen` reads it."""
    binding = ctx.binding(stored)
    uses = ctx.flow(stored).uses(binding) if binding is not None else ()
    fates = {use: fate(use, ctx) for use in uses if ctx.flow(use) is ctx.flow(stored)}
    if not {outcome for outcome, _ in fates.values()} <= {Fate.READ, Fate.UNTOUCHED}:
        return {}
    return {use: found for use, found in fates.items() if found[0] is Fate.READ}


def reads_of_view(use: ast.Name, stored: ast.expr, ctx: Context) -> dict[ast.Name, ast.expr]:
    """Return what reads memory by way of a view that has a name of its own: `part = memory[:, ::2]`."""
    reads = reads_of_other_name(stored, ctx)
    if not reads or use.id in {read.id for read in reads} or not _is_view(use, stored, ctx):
        return {}
    return {read: place for read, (_, place) in reads.items()}


def is_copied(use: ast.expr, stored: ast.expr, ctx: Context) -> bool:
    """`best = memory.copy()`, `np.copy(memory)`."""
    calls = (part for part in (use, *_steps(use, stored, ctx)) if isinstance(part, ast.Call))
    return any(identifier(call.func) in memory_table().methods["copying"] for call in calls)


def _is_view(use: ast.expr, stored: ast.expr, ctx: Context) -> bool:
    """`part = memory[:, ::2]`, `part = memory.select(0, 1)`: is the other name sure to share the memory?"""
    steps = _steps(use, stored, ctx)
    views = memory_table().methods["views"] - _MAY_COPY
    return all(
        (isinstance(step, ast.Call) and step.func in steps)
        or (isinstance(step, ast.Attribute) and step.attr in views)
        or (isinstance(step, ast.Subscript) and _is_sliced(step.slice))
        for step in steps
    )


def _steps(use: ast.expr, stored: ast.expr, ctx: Context) -> list[ast.AST]:
    """Return what is made of memory, one thing out of another, before it gets its other name."""
    handed = [use, *ctx.ancestors(use)]
    return handed[1 : handed.index(stored) + 1]


def _is_sliced(places: ast.expr) -> bool:
    """`[:, ::2]`, `[..., 0]`: slices and numbers give a view; of a mask or a list of places comes a copy."""
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    return all(isinstance(part, (ast.Slice, ast.Constant)) for part in parts)
