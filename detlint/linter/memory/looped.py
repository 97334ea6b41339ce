"""Which loop goes through what a container holds, and what is each element called there?"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

COLLECTING = frozenset({"builtins.list", "builtins.tuple", "builtins.dict"})
"""What collects all that a generator gives, or that a container has."""
_LISTING = frozenset({"builtins.list", "builtins.tuple", "builtins.reversed"})
_PAIRING = frozenset({"builtins.zip", "builtins.enumerate"})
_MOST_NAMES = 3


def looped(node: ast.expr, ctx: Context) -> tuple[ast.AST, ast.expr] | None:
    """Return the loop that goes through `node`, and what holds each: `host` of `for k, host in hosts.items()`.

    Also by a name, `entries = zip(hosts, values)`, and seen by a progress bar.
    """
    source, place = node, [1] if gives_entries(node, ("items",)) else []
    for _ in range(_MOST_NAMES):
        source = _collected(source, place, ctx)
        loop = ctx.parent(source)
        if isinstance(loop, (ast.For, ast.comprehension)) and loop.iter is source:
            return loop, _target_at(loop.target, place)
        binding = ctx.binding(source) if source is not node or place else None
        uses = list(ctx.flow(source).uses(binding)) if binding is not None else []
        if len(uses) != 1:
            return None
        source = uses[0]
    return None


def source_of(loop: ast.For | ast.AsyncFor, ctx: Context) -> ast.expr:
    """Return `model.parameters()` of a loop over `weights` after `weights = model.parameters()`; no progress bar."""
    source = loop.iter
    for _ in range(_MOST_NAMES):
        source = only_value(ctx.module, source) or source
        bar = isinstance(source, ast.Call) and not ctx.inference.types.bars.isdisjoint(ctx.callees(source))
        if not isinstance(source, ast.Call) or not bar or not source.args:
            break
        source = source.args[0]
    return source


def _collected(source: ast.expr, place: list[int], ctx: Context) -> ast.expr:
    """Return `tqdm(enumerate(hosts))` around `hosts`, and put its place in each round in front of `place`."""
    while isinstance(call := ctx.parent(source), ast.Call) and source in call.args:
        names = ctx.callees(call)
        if "builtins.enumerate" in names:
            place.insert(0, 1)
        elif "builtins.zip" in names:
            place.insert(0, call.args.index(source))
        elif ctx.inference.types.bars.isdisjoint(names) and _LISTING.isdisjoint(names):
            break
        source = call
    return source


def _target_at(target: ast.expr, place: Sequence[int]) -> ast.expr:
    """Return `host` of `i, (key, host)` at (1, 1)."""
    for position in place:
        if isinstance(target, ast.Tuple) and position < len(target.elts):
            target = target.elts[position]
    return target


def gives_entries(call: ast.expr, methods: Sequence[str] = ("items", "values")) -> bool:
    """`hosts.items()`."""
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in methods


def goes_through(value: ast.expr, ctx: Context) -> bool:
    """`zip(hosts, values)`, `hosts.items()`: what gives the elements of containers, one after the other."""
    return gives_entries(value) or (isinstance(value, ast.Call) and not _PAIRING.isdisjoint(ctx.callees(value)))


def parts_gone_through(source: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return `hosts` and `values` of a loop over `tqdm(zip(hosts, values))`, or over a name for that."""
    made = only_value(ctx.module, source)
    if isinstance(made, ast.Call) and goes_through(made, ctx):
        source = made
    if not isinstance(source, ast.Call):
        return [source]
    if ctx.inference.types.bars.isdisjoint(ctx.callees(source)):
        return source.args
    return parts_gone_through(source.args[0], ctx) if source.args else []
