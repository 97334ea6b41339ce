"""Draws from a global generator that leave out a generator which was made and seeded beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from detlint.conditions import Truth
from detlint.linter.analysis.program import calls_named
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.repeated_splits import splits_nothing
from detlint.linter.randomness.seeding import seeds_in
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own, walk
from detlint.randomness import OwnGenerator, load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_TORCH = "torch.Generator"
_SEED = "manual_seed"
_LOADER = "DataLoader"
_SHUFFLING = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler", "random_split", _LOADER)
# What a test asks about that tells draws with a seed from draws without.
_ASKED = re.compile(r"seed|generator|(^|_)(rng|prng|random|random_state|g|gen)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """A draw, and the call that makes the generator which it leaves out, kept under `name`."""

    draw: Drawn
    made: ast.Call
    name: str


def left_out_generators(ctx: Context) -> Iterator[LeftOut]:
    """Yield the first draw of each function that leaves out a generator of its own library, seeded for that function.

    One kept in an object counts in methods that draw from it too, and in all of them where nothing else does. A test
    for a seed around a draw keeps draws with one apart from those without.
    """
    seeded = tuple(_seeded(ctx))
    candidates = (draw for draw in (*global_draws(ctx), *orders(ctx)) if may_take_one(draw)) if seeded else ()
    draws = [draw for draw in candidates if not _is_seeded_in_passing(draw, ctx)]
    done: set[ast.AST | None] = set()
    for target, call, generator in seeded:
        drawing = [use for use in _uses(target, ctx) if not _seeds(use, generator, ctx)]
        library = generator.call.name.partition(".")[0]
        for draw in (draw for draw in draws if draw.library == library):
            function = ctx.function(draw.node)
            if function in done or not _stands_for(target, drawing, draw, function, ctx):
                continue
            makes = ctx.statement(draw.node) is ctx.statement(call) or _makes_seed(draw, ctx)
            if not makes and not is_asked_about(draw, call, ctx) and matters(draw, ctx):
                done.add(function)
                yield LeftOut(draw, call, ast.unparse(target))


def _seeded(ctx: Context) -> Iterator[tuple[ast.Name | ast.Attribute, ast.Call, OwnGenerator]]:
    """Yield what generators are kept in, with the call that makes or seeds them."""
    table = load_sources().generators
    for call in calls_named(ctx.module, table.lasts):
        generator = next(filter(None, map(table.get, ctx.callees(call))), None)
        target = _kept_in(call, ctx) if generator is not None else None
        if generator is None or target is None:
            continue
        if _is_seeded(call, generator, ctx) or any(_seeds(use, generator, ctx) for use in _uses(target, ctx)):
            yield target, call, generator
    torch = table.get(_TORCH)
    for call in calls_named(ctx.module, (_SEED,)):
        names = ctx.callees(call)
        holder = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == _SEED else None
        if torch is not None and _is_place(holder) and (not names or f"{_TORCH}.{_SEED}" in names):
            yield holder, call, torch


def orders(ctx: Context) -> Iterator[Drawn]:
    """Yield what draws the order of samples, or which of them go where: `RandomSampler(rows)`."""
    for call in calls_named(ctx.module, _SHUFFLING):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        names = (name for name in ctx.callees(call) if name.rpartition(".")[2] in _SHUFFLING)
        name = next((name for name in names if name.startswith("torch.utils.data.")), "")
        shuffles = not name.endswith(_LOADER) or ctx.truth(given.get("shuffle")) is Truth.YES
        if name and shuffles and "generator" not in given and not splits_nothing(call):
            yield Drawn(call, name, "torch")


def may_take_one(draw: Drawn) -> bool:
    """Could the call take a generator, and passes no `**options` that may hold one?

    NumPy's and Python's generators have a method for each draw; torch's functions take one, or do not.
    """
    if any(keyword.arg is None for keyword in draw.node.keywords):
        return False
    found = load_sources().draws.get(draw.name)
    return draw.library != "torch" or found is None or bool(found.generator)


def _kept_in(call: ast.Call, ctx: Context) -> ast.Name | ast.Attribute | None:
    """Return the variable of a function, or the attribute of an object, that a generator is put in."""
    statement = ctx.parent(ctx.chained(call))
    while isinstance(statement, (ast.IfExp, ast.BoolOp)):  # `torch.default_generator if seed is None else …`
        statement = ctx.parent(statement)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target if _is_place(target) and ctx.function(call) is not None else None


def _is_place(target: ast.expr | None) -> TypeGuard[ast.Name | ast.Attribute]:
    """Is this a variable, or an attribute of the object itself?"""
    return isinstance(target, ast.Name) or (isinstance(target, ast.Attribute) and is_own(target))


def _uses(target: ast.Name | ast.Attribute, ctx: Context) -> list[ast.expr]:
    index = ctx.module.index
    if isinstance(target, ast.Name):
        return [use for use in index.uses_of(target) if isinstance(use.ctx, ast.Load)]
    named = index.names_used.get(target.attr, ())
    return [use for use in named if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load)]


def _seeds(use: ast.expr, generator: OwnGenerator, ctx: Context) -> bool:
    """`g.manual_seed(epoch)` of a use of `g`."""
    method = ctx.parent(use)
    return isinstance(method, ast.Attribute) and method.attr in generator.methods


def _is_seeded(call: ast.Call, generator: OwnGenerator, ctx: Context) -> bool:
    """`RandomState(seed)`, `torch.Generator().manual_seed(seed)`."""
    if _seeds(call, generator, ctx):
        return True
    given = call.args or [keyword.value for keyword in call.keywords if keyword.arg in generator.seed]
    return bool(generator.seed) and bool(given) and ctx.constant(given[0]) is not None


def _stands_for(
    target: ast.Name | ast.Attribute,
    drawing: list[ast.expr],
    draw: Drawn,
    function: FunctionNode | None,
    ctx: Context,
) -> bool:
    """Is a generator there for a draw: in its function, after it was made, or in methods of its object?"""
    if (
        function is None
        or isinstance(function, ast.Lambda)
        or any(use in drawing for use in walk(ctx.chained(draw.node)))
    ):
        return False
    if drawing and draw.name.endswith(_LOADER):
        return False  # a generator of one's own for the parts, the program's for the batches
    if isinstance(target, ast.Name):
        return ctx.function(target) is function and ctx.flow(target).path(target, draw.node)
    if ctx.module.index.class_at(target) is not ctx.module.index.class_at(draw.node):
        return False
    return not drawing or any(ctx.function(use) is function for use in drawing)


def _is_seeded_in_passing(draw: Drawn, ctx: Context) -> bool:
    """`random.seed(epoch)` on each way to a draw, in the same function: its global generator is meant."""
    function = ctx.function(draw.node)
    seeds = [seed.node for seed in seeds_in(ctx.module) if draw.library in seed.libraries]
    own = [seed for seed in seeds if ctx.function(seed) is function]
    return function is not None and bool(own) and not ctx.flow(draw.node).path(None, draw.node, avoiding=own)


def _makes_seed(draw: Drawn, ctx: Context) -> bool:
    """`seed = int(torch.empty(()).random_())`, from which the generator starts."""
    targets = getattr(ctx.statement(draw.node), "targets", ())
    return any("seed" in identifier(target).lower() for target in targets)


def is_asked_about(draw: Drawn, seeded: ast.Call, ctx: Context) -> bool:
    """`if self.seed is None:` around a draw, and not around the generator as well."""
    shared = set(ctx.module.index.conditions_around(seeded))
    tests = (asked[0] for asked in ctx.module.index.conditions_around(draw.node) if asked not in shared)
    parts = (part for test in tests for part in walk(test))
    names = (
        part.id if isinstance(part, ast.Name) else part.attr
        for part in parts
        if isinstance(part, (ast.Name, ast.Attribute))
    )
    return any(_ASKED.search(name) for name in names)
