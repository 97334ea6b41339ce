"""Calls of project code that leave out the seed of the generator which it makes: `Rows(length=80)` of `seed=None`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.unpassed import is_asked_about, optional_in
from detlint.linter.programs.left_on import takes_default
from detlint.linter.source.names import FunctionNode, run_by
from detlint.linter.source.nodes import arguments_of, is_none, walk
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_SEEDS = "seed"  # what methods that seed an object have in their names


def calls_without_seed(ctx: Context) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of a file, with what they call, whose generators start from the system's randomness.

    What is kept in an object, or has a method for it called, may be seeded later.
    """
    for call in ctx.module.index.of_type(ast.Call):
        for name in ctx.callees(call) if takes_default(call) else ():
            definition = ctx.module.project.definition(name)
            if definition is None or definition[0].calls.isdisjoint(load_sources().generators.lasts):
                continue
            owner, made = definition
            later = isinstance(made, ast.ClassDef) and _may_be_seeded(call, ctx)
            function = None if later else run_by(made)
            if function is not None and _leaves_seed(function, call, ctx.elsewhere(owner)):
                yield name, call


def _leaves_seed(function: FunctionNode, call: ast.Call, inside: Context) -> bool:
    """Does a function seed a generator of its own with nothing but a parameter that a call leaves at None?"""
    for made in (part for part in walk(function) if isinstance(part, ast.Call)):
        generators = (load_sources().generators.get(name) for name in inside.callees(made))
        if not any(generator is not None and generator.seed for generator in generators):
            continue
        given = arguments_of(made)
        seed = given[0] if len(given) == 1 else None
        if isinstance(seed, ast.Name) and optional_in(seed, inside) is function and not is_asked_about(seed, inside):
            passed = argument_of(function, seed.id, call, skip_self=True)
            return passed is None or is_none(passed)
    return False


def _may_be_seeded(call: ast.Call, ctx: Context) -> bool:
    binding = ctx.binding(call)
    if binding is None:
        return not isinstance(ctx.parent(call), (ast.Call, ast.keyword))
    for use in ctx.flow(call).uses(binding):
        method = ctx.parent(use)
        if isinstance(method, ast.Attribute):
            done = ctx.parent(method)
            named = [keyword.arg or _SEEDS for keyword in done.keywords] if isinstance(done, ast.Call) else []
            if any(_SEEDS in word for word in (method.attr, *named)):
                return True
    return False
