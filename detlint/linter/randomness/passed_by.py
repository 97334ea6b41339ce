"""Draws from a global generator that pass by one which was made and seeded for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from detlint.conditions import Truth
from detlint.linter.analysis.origins import origins
from detlint.linter.analysis.program import calls_named
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.seeding import seeding_of, seeds_in
from detlint.linter.source.names import parameters
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_SEEDS = "manual_seed"
_TORCH = "torch.Generator"
_OTHERS = {
    "numpy.random.default_rng": "numpy",
    "numpy.random.RandomState": "numpy",
    "random.Random": "random",
}
# Of torch's draws, those that can be given a generator.
_OWNERS = ("torch", "torch.Tensor", "torch.utils.data")
_SAMPLERS = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler", "random_split")
_LOADER = "DataLoader"
_LIKE = "_like"
_PARAMETER = "generator"
# Attributes that hold what a caller brought.
_GENERATOR = re.compile(r"(^|_)(generator|rng)(_|$)")
# What asks a generator for anything but numbers.
_IDLE = frozenset({_SEEDS, "seed", "device", "initial_seed", "get_state", "set_state"})


@dataclass(frozen=True, slots=True, eq=False)
class _Seeded:
    """A generator of one's own: where it gets its seed, and the variable or attribute of `self` that holds it."""

    place: ast.Call
    holder: ast.Name | ast.Attribute
    library: str


def draws_past(ctx: Context) -> Iterator[tuple[Drawn, ast.AST]]:
    """Yield the draws that a generator at hand was seeded or brought for, with where it comes from.

    That is one which is given to nothing at all, or to all other draws of the function that seeds it.
    """
    told = set[ast.Call]()
    for seeded in _seeded(ctx):
        if _is_seeded(seeded, ctx):
            continue
        takers = [use for use in _uses(seeded, ctx) if not _is_idle(use, ctx)]
        if not all(_draws(use, seeded.library, ctx) for use in takers):
            continue
        for drawn in (*global_draws(ctx), *_samplers(ctx)):
            if drawn.node not in told and _is_meant_for(seeded, drawn, ctx, alone=not takers):
                told.add(drawn.node)
                yield drawn, seeded.place
    for drawn in global_draws(ctx) if _PARAMETER in ctx.module.source.text else ():
        ignored = _ignored(drawn, ctx)
        if ignored is not None and drawn.node not in told:
            yield drawn, ignored


def _ignored(drawn: Drawn, ctx: Context) -> ast.arg | None:
    """Return the parameter `generator` that nothing reads in the function around a draw which could be given it."""
    function = ctx.function(drawn.node)
    if function is None or not _takes_generator(drawn) or not matters(drawn, ctx):
        return None
    brought = next((each for each, _ in parameters(function.args) if each.arg == _PARAMETER), None)
    read = any(isinstance(part, ast.Name) and part.id == _PARAMETER for part in walk(function))
    return None if read else brought


def _takes_generator(drawn: Drawn) -> bool:
    owner, _, last = drawn.name.rpartition(".")
    return owner in _OWNERS and not last.endswith(_LIKE)


def _is_seeded(seeded: _Seeded, ctx: Context) -> bool:
    """Does the program seed the global generator as well, or the same function of library code?"""
    if ctx.program is not None:
        return seeding_of(ctx.program).shared(seeded.library)
    beside = (seed for seed in seeds_in(ctx.module) if ctx.function(seed.node) is ctx.function(seeded.place))
    return any(seeded.library in seed.libraries for seed in beside)


def _seeded(ctx: Context) -> Iterator[_Seeded]:
    """Yield `g.manual_seed(seed)` of a variable or attribute, and `rng = np.random.default_rng(seed)`."""
    for call in calls_named(ctx.module, (_SEEDS,)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        holder = _target(call, ctx) if isinstance(owner, ast.Call) else owner
        names = ctx.callees(call)
        unknown = not names and owner is not None and is_own(owner) and _GENERATOR.search(identifier(owner)) is not None
        if (unknown or f"{_TORCH}.{_SEEDS}" in names) and _holds(holder) and _is_fixed(call, ctx):
            yield _Seeded(call, holder, "torch")
    for call in calls_named(ctx.module, [name.rpartition(".")[2] for name in _OTHERS]):
        library = next((_OTHERS[name] for name in ctx.callees(call) if name in _OTHERS), "")
        holder = _target(call, ctx) if library and _is_fixed(call, ctx) else None
        if _holds(holder):
            yield _Seeded(call, holder, library)


def _is_fixed(call: ast.Call, ctx: Context) -> bool:
    """Is a seed given, and is it no draw itself, after which one source of numbers is as good as the other?"""
    seed = next(iter(arguments_of(call)), None)
    if seed is None or ctx.constant(seed) is None:
        return False
    table = load_sources().draws
    behind = (origin.node for origin in origins(ctx.module, seed, (ctx.module,)))
    calls = (part for part in behind if isinstance(part, ast.Call))
    return not any(table.get(name) is not None for made in calls for name in ctx.callees(made))


def _samplers(ctx: Context) -> Iterator[Drawn]:
    """Yield what a library draws an order from and gives no generator; of programs the rule about loaders tells."""
    for call in calls_named(ctx.module, (*_SAMPLERS, _LOADER)) if ctx.program is None else ():
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        name = next((name for name in ctx.callees(call) if name.startswith("torch.utils.data.")), "")
        shuffles = not name.endswith(_LOADER) or ctx.truth(given.get("shuffle")) is Truth.YES
        if name and shuffles and given.keys().isdisjoint({"generator", None}):
            yield Drawn(call, name, "torch")


def _target(call: ast.Call, ctx: Context) -> ast.expr | None:
    statement = ctx.parent(call)
    return statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None


def _holds(node: ast.expr | None) -> TypeGuard[ast.Name | ast.Attribute]:
    return isinstance(node, ast.Name) or (node is not None and is_own(node))


def _uses(seeded: _Seeded, ctx: Context) -> Iterator[ast.Name | ast.Attribute]:
    """Yield where a generator is read, an attribute anywhere in the file."""
    index, holder = ctx.module.index, seeded.holder
    if isinstance(holder, ast.Name):
        yield from index.uses_of(holder)
        return
    for use in index.names_used.get(holder.attr, ()):
        if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load):
            yield use


def _is_idle(use: ast.expr, ctx: Context) -> bool:
    """`g.manual_seed(0)`, `g.device`, `if g is None`."""
    parent = ctx.parent(use)
    asked = isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
    return asked or (isinstance(parent, ast.Attribute) and parent.attr in _IDLE)


def _draws(use: ast.expr, library: str, ctx: Context) -> bool:
    """`torch.rand(3, generator=g)`, `rng.normal()`: is a number drawn from the generator right here?"""
    parent = ctx.parent(use)
    if library != "torch":
        call = ctx.parent(parent) if isinstance(parent, ast.Attribute) else None
        return isinstance(call, ast.Call) and call.func is parent
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else None
    table = load_sources().draws
    return isinstance(call, ast.Call) and any(table.get(name) is not None for name in ctx.callees(call))


def _is_meant_for(seeded: _Seeded, drawn: Drawn, ctx: Context, *, alone: bool) -> bool:
    """Could a draw take its numbers from a generator that is seeded on each way there, or has no other use at all?

    An attribute without any other use is for all methods of its class.
    """
    place, node = seeded.place, drawn.node
    if drawn.library != seeded.library or not matters(drawn, ctx):
        return False
    if drawn.library == "torch" and not _takes_generator(drawn):
        return False
    function = ctx.function(place)
    inside = function is not None and function in ctx.ancestors(node)
    index = ctx.module.index
    if alone and isinstance(seeded.holder, ast.Attribute):
        return index.class_at(node) is index.class_at(place) and not _is_asked_about(seeded, node, ctx)
    if not inside or _is_asked_about(seeded, node, ctx):
        return False
    if not alone and not set(index.conditions_around(place)) <= set(index.conditions_around(node)):
        return False
    return ctx.function(node) is not function or ctx.flow(node).path(place, node)


def _is_asked_about(seeded: _Seeded, node: ast.AST, ctx: Context) -> bool:
    """`if g is None:` or `if seed is None:` around a draw: there is no generator then."""
    seeds = (part for given in arguments_of(seeded.place) for part in walk(given) if isinstance(part, ast.expr))
    names = {identifier(part) for part in (seeded.holder, *seeds)} - {"", "self"}
    tests = (test for test, _ in ctx.module.index.conditions_around(node))
    return any(identifier(part) in names for test in tests for part in walk(test) if isinstance(part, ast.expr))
