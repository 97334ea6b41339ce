"""Draws from a global generator beside a seed that is there for them, which nothing reads, or only draws like them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.analysis.unpassed import is_left_out
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.left_out_generators import is_asked_about, may_take_one, orders
from detlint.linter.randomness.seeding import seeds_in
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, receiver_of, walk
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# What functions and objects are given to draw from.
_SEED = re.compile(r"_?((?!(use|set|reset|fix|with|has|num|n|max|no)_)\w+_)?(seed|random_state|rng|generator)")
# Parameters by which calls take it, and packages whose functions keep it to themselves.
_STATES = ("random_state", "seed", "generator")
_KEEPS = ("sklearn.", "pandas.", "scipy.")  # all of them draw with NumPy
# What a docstring says of a parameter that nothing reads, for those who give it.
_KNOWN = "unused|not used|ignored|compatib"
# What reads all that a function is given, or all attributes of an object.
_WHOLE = frozenset({"locals", "vars", "save_hyperparameters", "__dict__", "asdict"})
_OPTIONS = frozenset({"args", "opt", "opts", "options", "params", "hparams", "flags", "cfg", "config", "conf"})


@dataclass(frozen=True, slots=True, eq=False)
class Ignored:
    """A draw, the name of the seed beside it, and where that comes from: a parameter, or a call that takes it."""

    draw: Drawn
    name: str
    seed: ast.AST
    unread: bool


def ignored_seeds(ctx: Context) -> Iterator[Ignored]:
    """Yield the first draw of each function that leaves out a seed which is there for it; each unread seed once.

    A function or class that seeds global generators itself means those.
    """
    done: set[ast.AST | None] = set()
    seeding = {outermost_definition(ctx.module, call) for call in _seeding(ctx)}
    for draw in (*global_draws(ctx), *orders(ctx)):
        function = ctx.function(draw.node)
        hidden = any(keyword.arg is None for keyword in draw.node.keywords)
        if function is None or function in done or hidden or outermost_definition(ctx.module, function) in seeding:
            continue
        if _is_seeded_around(draw.node, ctx) or _is_drawn_again(draw.node, function):
            continue
        found = seed_beside(draw, ctx) or _taken(draw, ctx)
        if found is not None and found.seed not in done and matters(draw, ctx):
            done.update((function, found.seed) if found.unread else (function,))
            yield found


def seed_beside(draw: Drawn, ctx: Context) -> Ignored | None:
    """Is there a seed in the function or the object of a draw that seeds nothing which it draws from?"""
    return _given(draw, ctx) or _kept(draw, ctx)


def _seeding(ctx: Context) -> Iterator[ast.Call]:
    yield from (seed.node for seed in seeds_in(ctx.module))
    for name in filter(load_sources().helpers.fits, ctx.module.calls):
        yield from ctx.module.index.calls_by_name.get(name, ())


def _is_seeded_around(node: ast.AST, ctx: Context) -> bool:
    """`with numpy_seed(self.seed, index):`, a context manager that seeds, by its name or by what it does."""
    managers = [
        item.context_expr
        for around in ctx.ancestors(node)
        if isinstance(around, ast.With)
        for item in around.items
        if isinstance(item.context_expr, ast.Call)
    ]
    return any("seed" in identifier(manager.func) for manager in managers) or any(
        place.index.function_at(seed.node) is function
        for manager in managers
        for place, function in functions_called(ctx.inference, manager)
        for seed in seeds_in(place)
    )


def _is_drawn_again(draw: ast.Call, function: FunctionNode) -> bool:
    """`q.exponential_()`, and then `q[i].exponential_(generator=g)` of the rows that have a generator of their own."""
    filled, method = receiver_of(draw), identifier(draw.func)
    others = (receiver_of(part) for part in walk(function) if isinstance(part, ast.Call) and part is not draw)
    rows = (other.value for other in others if isinstance(other, ast.Subscript))
    return method.endswith("_") and isinstance(filled, ast.Name) and any(identifier(row) == filled.id for row in rows)


def _could_seed(name: str, draw: Drawn) -> bool:
    """Is this the name of something that a draw could draw from? Others than torch's call models generators."""
    return _SEED.fullmatch(name) is not None and ("generator" not in name or _takes_state(draw))


def _takes_state(draw: Drawn) -> bool:
    """Could a torch generator be handed to it? Most releases of torch have no such parameter in `rand_like`."""
    known = load_sources().draws.get(draw.name)
    takes = known is None or (bool(known.generator) and not draw.name.endswith("_like"))
    return takes and may_take_one(draw) and draw.library == "torch"


def _given(draw: Drawn, ctx: Context) -> Ignored | None:
    """`def part(rows, seed): return rows.sample(n)`: is there a parameter that seeds nothing which this draws from?"""
    for function in (parent for parent in ctx.ancestors(draw.node) if isinstance(parent, FUNCTIONS)):
        seeds = [pair for pair in parameters(function.args) if _could_seed(pair[0].arg, draw)]
        names = [part for part in walk(function) if isinstance(part, ast.Name)] if seeds else []
        if not _WHOLE.isdisjoint(name.id for name in names):
            continue
        for argument, default in seeds:
            reads = [name for name in names if name.id == argument.arg]
            if reads and draw.library != "numpy":
                continue
            if not all(_keeps_to_itself(read, ctx) for read in reads):
                continue
            known = re.search(rf"\b{argument.arg}\b.*({_KNOWN})", ast.get_docstring(function) or "", re.IGNORECASE)
            optional = isinstance(default, ast.Constant) and default.value is None
            if not known and not (optional and is_left_out(function, argument.arg, ctx)):
                return Ignored(draw, argument.arg, argument, unread=not reads)
    return None


def _keeps_to_itself(read: ast.expr, ctx: Context) -> bool:
    """`train_test_split(rows, random_state=seed)` of a library: seeds nothing that others draw from."""
    keyword = ctx.parent(read)
    call = ctx.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg in _STATES else None
    names = ctx.callees(call) if isinstance(call, ast.Call) else ()
    return bool(names) and all(name.startswith(_KEEPS) for name in names)


def _kept(draw: Drawn, ctx: Context) -> Ignored | None:
    """`self.seed = seed` in the constructor: does an object keep a seed that nobody ever reads?"""
    owner = ctx.module.index.class_at(draw.node)
    if owner is None:
        return None
    info = ctx.inference.class_info(owner)
    for name in info.attributes:
        if not _could_seed(name, draw) or any(name in each.methods for each in ctx.inference.mro(info)):
            continue
        values = [write.value for write in info.attributes[name]]
        given = [value for value in values if isinstance(value, ast.Name) and _SEED.fullmatch(value.id)]
        reads = {use for value in given for use in ctx.module.index.uses_of(value)}
        if given and len(given) == len(values) == len(reads) and not _is_read(name, owner, ctx):
            return Ignored(draw, f"self.{name}", given[0], unread=True)
    return None


def _is_read(attribute: str, owner: ast.ClassDef, ctx: Context) -> bool:
    """Does the file of a class, of one that it inherits from, or one that uses it, read an attribute of this name?"""
    info = ctx.inference.class_info(owner)
    family = ctx.inference.mro(info)
    modules = {each.module for each in family} | {user.module for user in users_of(owner, ctx)}
    if not {base.partition(".")[0] for base in ctx.inference.external_bases(info)} <= {"builtins", "abc", "torch"}:
        return True
    for module in modules:
        uses = module.index.names_used.get(attribute, ())
        loads = [use for use in uses if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load)]
        if not _WHOLE.isdisjoint(module.index.names_used) or any(_may_read(load, info, module) for load in loads):
            return True
        if any(text.value == attribute for text in module.index.of_type(ast.Constant)):
            return True
    return False


def _may_read(load: ast.Attribute, info: ClassInfo, module: Module) -> bool:
    """Not `args.seed`, nor `self.seed` in a class that is no relation."""
    around = module.index.class_at(load) if is_own(load) else None
    if around is None:
        return identifier(load.value) not in _OPTIONS
    other = module.inference.class_info(around)
    return info in module.inference.mro(other) or other in module.inference.mro(info)


def _taken(draw: Drawn, ctx: Context) -> Ignored | None:
    """Does the same method beside it, in the function or the object, get a state that this one could take as well?"""
    known = load_sources().draws.get(draw.name)
    if known is not None and not known.generator:
        return None
    owner, function = ctx.module.index.class_at(draw.node), ctx.function(draw.node)
    for call in ctx.module.index.calls_by_name.get(identifier(draw.node.func), ()):
        state = next((word.value for word in call.keywords if word.arg in _STATES), None)
        if state is None or ctx.constant(state) is None:
            continue
        beside = ctx.function(call) is function or (owner is not None and is_own(state))
        if beside and ctx.module.index.class_at(call) is owner and not is_asked_about(draw, call, ctx):
            return Ignored(draw, ast.unparse(state), call, unread=False)
    return None
