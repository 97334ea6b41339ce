"""Are bits meant to be kept here? By saving and loading, copying, or starting again from one state."""

from __future__ import annotations

import ast

from detlint.linter.context import Context
from detlint.linter.names import COMPREHENSIONS, FUNCTIONS, FunctionNode
from detlint.linter.nodes import identifier, walk
from detlint.linter.rounding_table import rounding_table


def keeps_bits(node: ast.expr, ctx: Context) -> bool:
    """Return whether the function around says by its name, or by what it calls, that its results repeat exactly."""
    function = ctx.function(node)
    if function is None:
        return False
    table = rounding_table()
    said = [part for part in function.name.split("_") if part == part.lower()]  # others name a class under test
    if any(word in "_".join(said) for word in table.exact_words):
        return True
    names = {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(function)
        if isinstance(part, (ast.Attribute, ast.Name))
    }
    return bool(names & table.exact_calls) or _seeds_again(function, ctx)


def _seeds_again(function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function may start twice from one state: a generator of its own, seeded once, does not."""
    seeds = [part for part in walk(function) if isinstance(part, ast.Call) and _is_seeding(part)]
    if any("torch.Generator.manual_seed" not in ctx.callees(seed) for seed in seeds):
        return True
    return len(seeds) > 1 or any(_is_repeated_within(seed, function, ctx) for seed in seeds)


def _is_seeding(call: ast.Call) -> bool:
    return identifier(call.func) in rounding_table().seeding


def _is_repeated_within(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether an expression stands in a loop or in a function inside `function`."""
    for around in ctx.ancestors(node):
        if around is function:
            return False
        if isinstance(around, (ast.For, ast.While, *FUNCTIONS, ast.Lambda, *COMPREHENSIONS)):
            return True
    return False
