"""Random generators of one's own that are never given a seed (DET102)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import calls_of, given_on, importers, is_set_from_outside, is_used_elsewhere
from detlint.linter.analysis.constructions import callers_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program, among_scripts
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.testcode import is_test_file, is_unit_test
from detlint.linter.analysis.unpassed import is_asked_about, is_left_out, optional_in
from detlint.linter.randomness.fallbacks import is_fallback
from detlint.linter.randomness.ignored_seeds import ignored_seeds
from detlint.linter.randomness.left_out_generators import left_out_generators
from detlint.linter.randomness.left_out_seeds import calls_without_seed
from detlint.linter.randomness.purpose import draws_decide
from detlint.linter.randomness.seeded_generators import gets_a_seed, is_torch
from detlint.linter.randomness.seeding import seeding_of
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own
from detlint.randomness import OwnGenerator, load_sources

_SYSTEM = "is never given a seed: its draws differ in every run, whatever the program seeds"
_CONSTANT = "is never given a seed: it draws the same numbers in every run, whatever the program seeds"
_DEPTH = 4
_PRIVATE = re.compile(r"_[^_]")


@check("DET102")
def unseeded_generator(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where a seed comes later, where a caller may bring one, where code unread gets it, where nothing draws."""
    generator = load_sources().generators.get(call.name)
    if generator is None:
        return
    torch = call.name.startswith("torch.")
    if _has_seed(call, generator, ctx) or (torch and is_test_file(ctx.module)):
        return  # a test is glad of numbers that are always the same
    if is_fallback(call.node, ctx, torch=torch):
        return
    places = list(_places(call.node, ctx))
    if all(_is_as_good_as_seeded(node, generator, where) for where, node in places):
        return
    asked = [each for where, node in places for each in _asked_for_numbers(node, where)] if torch else []
    if asked and all(asked):
        return  # nothing is drawn from it: what comes of the number is for the rule about seeds
    constant = torch and not any(asked)
    if constant and _is_all_there_is(call.node, ctx):
        return
    yield ctx.finding(call.node, call=f"{call.name}()", consequence=_CONSTANT if constant else _SYSTEM)


def _places(made: ast.expr, ctx: Context, steps: int = _DEPTH) -> Iterator[tuple[Context, ast.expr]]:
    """Yield where a new generator is: where it is made, or the calls of what makes and returns it, `rng = make()`."""
    results = given_on(made, ctx) if steps else []
    if not results:
        yield ctx, made
    for where, result in results:
        yield from _places(result, where, steps - 1)


def _is_as_good_as_seeded(made: ast.expr, generator: OwnGenerator, ctx: Context) -> bool:
    """Does it stand in for what a caller gives, is it seeded later, or does nothing come of its draws?"""
    if is_fallback(made, ctx, torch=is_torch(generator)) or _is_unused(made, ctx):
        return True
    return gets_a_seed(made, generator, ctx) or not draws_decide(made, ctx)


def _is_all_there_is(made: ast.Call, ctx: Context) -> bool:
    """Is it the one generator of a program in which no seed is asked for or set, so that there is none to ignore?"""
    if ctx.program is None or len(ctx.module.index.calls_by_name.get(identifier(made.func), ())) > 1:
        return False
    names = (*ctx.module.index.names_used, *ctx.module.index.root.bindings, *_parameters_of(ctx.module))
    texts = (constant.value for constant in ctx.module.index.of_type(ast.Constant))
    options = (text for text in texts if isinstance(text, str) and " " not in text)
    return not any("seed" in word.lower() for word in (*names, *options)) and not seeding_of(ctx.program).seeds


def _parameters_of(module: Module) -> Iterator[str]:
    return (parameter.arg for parameter in module.index.of_type(ast.arg))


@check_file("DET102")
def seed_left_out(ctx: Context) -> Iterator[Finding]:
    """A finding a function that a program calls without the seed of the generator that it makes, and seeds others.

    Who seeds nothing did not ask for the same data again; a library hands on what it is given.
    """
    if ctx.program is None or is_unit_test(ctx.module):
        return
    calls: dict[str, list[ast.Call]] = {}
    for name, call in calls_without_seed(ctx):
        calls.setdefault(name, []).append(call)
    if not calls or not _seeds(ctx):
        return
    for first, *more in calls.values():
        related = [(ctx.module, other, "left out here too") for other in more]
        yield ctx.finding(first, related=related, call=f"{ast.unparse(first.func)}()", consequence=_SYSTEM)


@check_file("DET102")
def generator_left_out(ctx: Context) -> Iterator[Finding]:
    """A draw from a global generator beside a seeded one, or a seed, for it; in a program it is one draw of DET101."""
    if ctx.program is not None or is_test_file(ctx.module):
        return
    left_out = tuple(left_out_generators(ctx))
    for left in left_out:
        seeded = f"draws from the global generator and leaves out {left.name}, which is seeded on {ctx.line(left.made)}"
        related = [(ctx.module, left.made, "seeded, and left out")]
        yield ctx.finding(left.draw.node, related=related, call=f"{left.draw.name}()", consequence=seeded)
    found = {ctx.function(left.draw.node) for left in left_out}
    for ignored in (ignored for ignored in ignored_seeds(ctx) if ctx.function(ignored.draw.node) not in found):
        why = "which nothing reads" if ignored.unread else f"which others take: {ctx.line(ignored.seed)}"
        seeded = f"draws from the global generator and leaves out {ignored.name}, {why}"
        beside = [(ctx.module, ignored.seed, "left out")]
        yield ctx.finding(ignored.draw.node, related=beside, call=f"{ignored.draw.name}()", consequence=seeded)


@check_file("DET102")
def unseeded_factory(ctx: Context) -> Iterator[Finding]:
    """`rng: Generator = field(default_factory=np.random.default_rng)` that everybody leaves to the default."""
    for keyword in ctx.module.index.of_type(ast.keyword) if not is_test_file(ctx.module) else ():
        if keyword.arg != "default_factory":
            continue
        made = [name for name in ctx.resolve(keyword.value) if load_sources().generators.get(name) is not None]
        field, owner = ctx.statement(keyword), ctx.module.index.class_at(keyword)
        if not made or made[0].startswith("torch.") or owner is None or not isinstance(field, ast.AnnAssign):
            continue
        sites = [site[1] for site in calls_of(owner, ctx) if site is not None]
        given = {word.arg for call in sites for word in call.keywords}
        if sites and given.isdisjoint({identifier(field.target), None}):
            yield ctx.finding(keyword.value, call=f"{made[0]}()", consequence=_SYSTEM)


def _asked_for_numbers(node: ast.expr, ctx: Context) -> list[bool]:
    """Return of each use of a torch generator whether it is `g.seed()`, which gives it a number of the system's."""
    binding = ctx.binding(node)
    uses = ctx.flow(node).uses(binding) if binding is not None else (node,)
    return [isinstance(parent := ctx.parent(use), ast.Attribute) and parent.attr == "seed" for use in uses]


def _has_seed(call: Call, generator: OwnGenerator, ctx: Context) -> bool:
    if any(isinstance(argument, ast.Starred) for argument in call.node.args):
        return True
    if generator.seed and call.node.args:
        return _is_seed(call.node.args[0], ctx)
    given = {keyword.arg: keyword.value for keyword in call.node.keywords}
    if None in given:
        return True
    return any(name in given and _is_seed(given[name], ctx) for name in generator.seed)


def _is_seed(value: ast.expr, ctx: Context) -> bool:
    """Not None; a field of a class that is None by default is there to be set, and a parameter of a public function.

    Not where callers in the project leave it out, of a private function, among scripts, or in a file of the library
    that seeds others; what the function asks about first, `default_rng(seed) if seed is not None else rng`, is provided
    for.
    """
    name, inside = _taken_over(value, ctx)
    if isinstance(name, ast.Name) and not is_asked_about(value, ctx) and not is_asked_about(name, inside):
        function = optional_in(name, inside)
        if function is not None and is_left_out(function, name.id, inside):
            return not (
                _PRIVATE.match(function.name)
                or _is_of_scripts(function, inside)
                or _is_meant_to_repeat(function, inside)
            )
    return isinstance(value, ast.Attribute) or ctx.constant(value) is not None


def _taken_over(value: ast.expr, ctx: Context) -> tuple[ast.expr, Context]:
    """Return the `seed` of `self.seed` where the class sets that once, and nobody else does; else the value itself."""
    owner = ctx.module.index.class_at(value) if is_own(value) else None
    if owner is None or not isinstance(value, ast.Attribute) or is_set_from_outside(value.attr, ctx):
        return value, ctx
    writes = list(ctx.inference.attribute_writes(ctx.inference.class_info(owner), value.attr))
    if len(writes) != 1 or writes[0][1].index:
        return value, ctx
    return writes[0][1].value, ctx.elsewhere(writes[0][0].module)


def _is_of_scripts(function: FunctionNode, ctx: Context) -> bool:
    """Is a function there for scripts beside its file, or that this is, so that all its calls are in sight?

    Of one that seeds others, the call is the finding.
    """
    if not among_scripts(ctx.module) or not any(True for _ in _scripts(ctx)):
        return False
    sites = callers_of(function, ctx, handed=True) or ()
    return not any(site.program is not None and _seeds(site) for site, _ in sites)


def _scripts(ctx: Context) -> Iterator[Program]:
    """Yield the programs that a file is, or that import it."""
    users = (user.program for user in (ctx, *importers(ctx)) if not is_test_file(user.module))
    yield from (program for program in users if program is not None)


def _is_meant_to_repeat(function: FunctionNode, ctx: Context) -> bool:
    """Does a file of the library that calls a function seed something? Of one of a program the call is the finding.

    For a file beside scripts, those that import it do.
    """
    sites = [site for site, _ in callers_of(function, ctx) or () if site.program is None]
    return any(_seeds(site) or (among_scripts(site.module) and _is_seeded_by_scripts(site)) for site in sites)


def _is_seeded_by_scripts(ctx: Context) -> bool:
    return any(seeding_of(program).seeds for program in _scripts(ctx))


def _seeds(ctx: Context) -> bool:
    """Does the file itself seed a global generator?"""
    return seeding_of(ctx.program_or_library).has_place_in(ctx.module)


def _is_unused(node: ast.expr, ctx: Context) -> bool:
    """Is it kept under a name that its file does not export and no file of the project reads? Nothing draws from it."""
    binding = ctx.binding(node)
    if binding is None or binding.scope.is_class:
        return False
    index = ctx.module.index
    owner = index.scope_at(binding.node).lookup(binding.name)  # not the function's own one after `global`
    reads = (
        use
        for use in index.names_used.get(binding.name, ())
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load)
    )
    exported = any(
        isinstance(text.value, str) and text.value == binding.name
        for text in index.of_type(ast.Constant)
        if isinstance(ctx.parent(text), (ast.List, ast.Tuple))
    )
    if exported or any(index.scope_at(use).lookup(use.id) is owner for use in reads):
        return False
    shared = owner is not None and isinstance(owner.node, ast.Module)
    return not (shared and is_used_elsewhere(binding.name, ctx))
