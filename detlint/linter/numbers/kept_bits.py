"""Are bits meant to be kept here? By saving and loading, copying, or starting again from one state."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.taken import made_by
from detlint.linter.numbers.twins import are_built_apart
from detlint.linter.programs.called_models import is_engine_run, is_layer
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

# How functions that compare are given what they say where that fails.
_MESSAGES = ("msg", "err_msg")
_PAIR = 2
# Calls of a helper that are looked at.
_MOST_CALLS = 20


def keep_bits(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Return whether two sides are bits that were kept, and no results of two programs or of two machines."""
    if is_run_by_engine(ctx.module, left) is not is_run_by_engine(ctx.module, right):
        return False
    made = [call for side in (left, right) for call in made_by(ctx.module, side)]
    converted = _conversions(left, ctx) != _conversions(right, ctx)
    if converted or _is_one_a_program(left, right, ctx.module) or are_built_apart(left, right, ctx):
        return _is_said(left, ctx)
    return _keeps_bits(left, ctx, made, of_others=is_loaded(ctx.module, left) or is_loaded(ctx.module, right))


def is_loaded(module: Module, node: ast.expr) -> bool:
    """`torch.load("expected.pt")["logits"]`."""
    loaders = rounding_table().loaders
    return any(not loaders.isdisjoint(module.inference.callees(call)) for call in made_by(module, node))


def is_run_by_engine(module: Module, node: ast.expr) -> bool:
    """`session.run(None, inputs)[0]`."""
    return any(is_engine_run(module, call) for call in made_by(module, node))


def _is_one_a_program(left: ast.expr, right: ast.expr, module: Module) -> bool:
    """`net(x)` of a module and `loaded(x)` of `loaded = torch.jit.load(path)`, whose code was put together anew."""
    models = [call.func for side in (left, right) for call in list(made_by(module, side))[:1]]
    others = [model for model in models if not _is_program(module, model)]
    return len(models) > len(others) == 1 and is_layer(module, others[0])


def _is_program(module: Module, called: ast.expr) -> bool:
    """`torch.jit.load(path).eval()`, and a name or an attribute that is set to it."""
    made = only_value(module, called)
    while isinstance(made, ast.Call):
        if not rounding_table().programs.isdisjoint(module.inference.callees(made)):
            return True
        made = made.func.value if isinstance(made.func, ast.Attribute) else None
        made = only_value(module, made) or made if isinstance(made, ast.Name) else made
    return False


def _keeps_bits(node: ast.expr, ctx: Context, made: list[ast.Call], of_others: bool) -> bool:
    """Return whether the function around says by its name, or by what it calls, that its results repeat exactly.

    `made` are the calls that gave what is compared. `of_others`: what is loaded are results, which another program
    saved unless this function saves something.
    """
    function = ctx.function(node)
    if function is None:
        return False
    if _is_said(node, ctx):
        return True
    table, names = rounding_table(), _names_in(function)
    if of_others and not any(word in name for name in (*names, function.name) for word in table.saving):
        names -= table.loading
    return (
        bool(names & table.exact_calls)
        or _goes_there_and_back(function)
        or _seeds_again(function, made, ctx)
        or _is_kept_by_callers(function, made, ctx)
    )


def _names_in(function: FunctionNode) -> set[str]:
    return {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in walk(function)
        if isinstance(part, (ast.Attribute, ast.Name))
    }


def _is_kept_by_callers(function: FunctionNode, made: list[ast.Call], ctx: Context) -> bool:
    """`def assert_same(net, restored): assert torch.equal(net(x), restored(x))`, of a test that saves and loads."""
    given = {argument.arg for argument, _ in parameters(function.args)}
    if len(given.intersection(identifier(call.func) for call in made if isinstance(call.func, ast.Name))) < _PAIR:
        return False
    sites = list(islice(calls_of(function, ctx), _MOST_CALLS))
    return bool(sites) and all(site is not None and _calls_exact(*site) for site in sites)


def _calls_exact(inside: Context, call: ast.Call) -> bool:
    caller = inside.function(call)
    return caller is not None and not _names_in(caller).isdisjoint(rounding_table().exact_calls)


def _goes_there_and_back(function: FunctionNode) -> bool:
    """`net.save_params(path)` and `other.load_params(path)`: what one call writes another one of its kind reads."""
    called = {identifier(part.func) for part in walk(function) if isinstance(part, ast.Call)}
    return any(
        f"{read}{name[len(write) :]}" in called
        for name in called
        for write, read in rounding_table().round_trips
        if name.startswith(write)
    )


def _is_said(node: ast.expr, ctx: Context) -> bool:
    """`def test_outputs_are_identical():`, `if is_deterministic:` around a comparison, or its message."""
    table, function, inner = rounding_table(), ctx.function(node), ctx.statement(node)
    message = " ".join(_message_of(inner)).lower()
    if any(word in message for word in table.exact_messages):
        return True
    for around in ctx.ancestors(inner):
        if isinstance(around, ast.If) and inner in around.body:
            asked = [identifier(part) for part in ast.walk(around.test)]
            if any(word in name for word in table.exact_flags for name in asked):
                return True
        if around is function or not isinstance(around, ast.stmt):
            break
        inner = around
    parts = function.name.split("_") if function is not None else []
    said = "_".join(part for part in parts if part == part.lower())  # others name a class under test
    return any(word in said for word in table.exact_words)


def _message_of(comparison: ast.stmt) -> Iterator[str]:
    """Yield the texts of what `assert same, "not deterministic"` says, and of `self.assertEqual(a, b, msg="…")`."""
    said = [comparison.msg] if isinstance(comparison, ast.Assert) and comparison.msg is not None else []
    call = comparison.value if isinstance(comparison, ast.Expr) else None
    if isinstance(call, ast.Call):
        said = [*call.args[2:3], *(named.value for named in call.keywords if named.arg in _MESSAGES)]
    for part in (part for text in said for part in walk(text)):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _conversions(side: ast.expr, ctx: Context) -> set[str]:
    """Return what changed how the model behind a side computes: `quantize_(copied)`, `fast = torch.compile(net)`."""
    function, called = ctx.function(side), {ast.unparse(call.func) for call in made_by(ctx.module, side)}
    found = set()
    for part in walk(function) if function is not None else ():
        if not isinstance(part, (ast.Expr, ast.Assign)) or part.lineno > side.lineno:
            continue
        call = part.value
        if not isinstance(call, ast.Call) or not call.args:
            continue
        changed = part.targets if isinstance(part, ast.Assign) else call.args[:1]
        name = identifier(call.func)
        if not rounding_table().converting.isdisjoint(name.split("_")) and called.intersection(
            map(ast.unparse, changed)
        ):
            found.add(name)
    return found


def _seeds_again(function: FunctionNode, made: list[ast.Call], ctx: Context) -> bool:
    """Return whether a function may start twice from one state: seeded once, before anything is made, it does not."""
    seeds = [part for part in walk(function) if isinstance(part, ast.Call) and _is_seeding(part)]
    if len(seeds) > 1 or any(_is_repeated_within(seed, function, ctx) for seed in seeds):
        return True
    first = min((call.lineno for call in made if ctx.function(call) is function), default=0)
    return any(seed.lineno >= first and "torch.Generator.manual_seed" not in ctx.callees(seed) for seed in seeds)


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
