"""Draws from the global generators of torch, NumPy and Python in one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.origins import made_by
from detlint.linter.analysis.program import calls_named
from detlint.linter.programs.meta_device import has_form_alone
from detlint.linter.randomness.identifiers import picks_address
from detlint.linter.randomness.messages import only_words_a_message
from detlint.linter.randomness.purpose import decides
from detlint.linter.randomness.seed_fields import fills_seed_field
from detlint.linter.source.names import parameters
from detlint.linter.source.nodes import identifier, walk
from detlint.randomness import load_sources
from detlint.rulebook import Trigger

_INITIALISES = re.compile(r"(^|_)(init|initiali[sz]e|reset)(_|$)")


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A draw from a library's global generator."""

    node: ast.Call
    name: str
    library: str


def global_draws(ctx: Context) -> Iterator[Drawn]:
    """Yield the draws of a file from global generators, those of initial weights left out, in source order."""
    table = load_sources().draws
    for call in calls_named(ctx.module, table.lasts):
        for name in (*ctx.callees(call), *_of_table(call, ctx)):
            draw = table.get(name)
            if draw is None:
                continue
            arguments = [Call(call, Trigger(name, ())).argument(generator) for generator in draw.generator]
            own = any(argument.given and ctx.constant(argument.value) is not None for argument in arguments)
            if not own and not _initialises(call, ctx):
                yield Drawn(call, name, draw.library)
            break


def _of_table(call: ast.Call, ctx: Context) -> tuple[str, ...]:
    """`df.sample(frac=1)`: only tables have `frac`; else the receiver must come out of pandas, or be used like it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sample" or ctx.callees(call):
        return ()
    fraction = any(keyword.arg == "frac" for keyword in call.keywords)
    table = fraction or made_by(ctx.module, call.func.value, "pandas") or _is_grouped(call.func.value, ctx)
    return ("pandas.DataFrame.sample",) if table or _is_beside_table(call, ctx) else ()


def _is_grouped(rows: ast.expr, ctx: Context) -> bool:
    """`df.groupby("topic").apply(lambda rows: rows.sample(5))`."""
    function = next((parent for parent in ctx.ancestors(rows) if isinstance(parent, ast.Lambda)), None)
    apply = ctx.parent(function) if function is not None else None
    if function is None or not isinstance(apply, ast.Call) or not isinstance(apply.func, ast.Attribute):
        return False
    named = identifier(rows) in {parameter.arg for parameter, _ in parameters(function.args)}
    return named and apply.func.attr == "apply" and any(map(_groups, walk(apply.func)))


def _groups(part: ast.AST) -> bool:
    return isinstance(part, ast.Attribute) and part.attr == "groupby"


def _is_beside_table(call: ast.Call, ctx: Context) -> bool:
    """`fake.sample(n=9)` in a function with `real.sample(n=9, random_state=0)`: only tables have `random_state`."""
    named = any(keyword.arg == "n" for keyword in call.keywords)
    return named and any(
        keyword.arg == "random_state" and ctx.function(other) is ctx.function(call)
        for other in ctx.module.index.calls_by_name.get("sample", ())
        for keyword in other.keywords
    )


def _initialises(call: ast.Call, ctx: Context) -> bool:
    """Does the draw make the initial weights of a module?"""
    for parent in ctx.ancestors(call):
        if isinstance(parent, ast.Call) and "torch.nn.Parameter" in ctx.callees(parent):
            return True
        if isinstance(parent, ast.stmt):
            break
    function = ctx.function(call)
    if function is None:
        return False
    owner = ctx.parent(function)
    if isinstance(owner, ast.ClassDef) and ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return bool(_INITIALISES.search(function.name))
    return bool(_INITIALISES.search(function.name)) and "weight" in function.name


def matters(draw: Drawn, ctx: Context) -> bool:
    if draw.library == "torch" and load_sources().indifferent.measures(ctx.module.name.rpartition(".")[2]):
        return False  # get_flops.py: an input of the right shape
    if has_form_alone(draw.node, ctx) or fills_seed_field(draw.node, ctx):
        return False
    if only_words_a_message(draw.node, draw.name, ctx) or picks_address(draw.node, ctx):
        return False
    last = draw.name.rpartition(".")[2]
    if last == "shuffle" or last.endswith("_"):
        return True  # changes its argument in place
    return decides(draw.node, ctx)
