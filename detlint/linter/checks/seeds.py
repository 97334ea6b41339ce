"""Seeds that nobody can give again (DET103)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.calls import argument_of
from detlint.linter.context import Context
from detlint.linter.loader_workers import worker_initialisers
from detlint.linter.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.origins import origins
from detlint.linter.program import calls_named
from detlint.linter.project import Module
from detlint.linter.registry import check_file
from detlint.linter.repeatable import made_up, why_unrepeatable
from detlint.linter.seeding import seeds_in
from detlint.randomness import load_sources

_SEED = re.compile(r"(^|_)(manual|random|rng|base|init|np|torch|numpy|global)?_?(seed|random_state)$", re.IGNORECASE)
_DEPTH = 3


@check_file("DET103")
def nondeterministic_seed(ctx: Context) -> Iterator[Finding]:
    """One finding for each value that cannot be repeated and takes part in a seed, at that value.

    What a worker_init_fn does is reported beside its DataLoader's rule.
    """
    reported: set[ast.AST] = set()
    workers = worker_initialisers(ctx.module)
    for node, source in sorted(_found(ctx), key=lambda found: (found[0].lineno, found[0].col_offset)):
        in_worker = any(parent in workers for parent in ctx.ancestors(node))
        if node not in reported and not in_worker:
            reported.add(node)
            yield ctx.finding(node, source=source)


def _found(ctx: Context) -> Iterator[tuple[ast.expr, str]]:
    module = ctx.module
    for seed in seeds_in(module):
        source = made_up(seed)
        if source:
            yield seed.node, source
    if not _holds_source(module):
        return
    for value in _seed_values(ctx):
        for origin in origins(module, value, (module,)):
            source = why_unrepeatable(origin)
            if source and origin.module is module:
                yield origin.node, source
                break


def _holds_source(module: Module) -> bool:
    """Is there anything in the file that no run repeats? Most files hold nothing of the kind."""
    return next(calls_named(module, load_sources().unrepeatable.lasts | {"hash"}), None) is not None


def _seed_values(ctx: Context) -> Iterator[ast.expr]:
    """Yield the expressions of a file that are used as seeds."""
    index, table = ctx.module.index, load_sources()
    for seed in seeds_in(ctx.module):
        if seed.value is not None:
            yield seed.value
        elif seed.seeder is None:
            yield from seed.node.args
    for call in calls_named(ctx.module, table.generators.lasts):
        for generator in (table.generators.get(name) for name in ctx.callees(call)):
            if generator is not None and generator.seed:
                yield from call.args[:1]
                yield from (keyword.value for keyword in call.keywords if keyword.arg in generator.seed)
    for call in index.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and _SEED.search(call.func.attr):
            yield from call.args[:1]
        yield from (keyword.value for keyword in call.keywords if keyword.arg and _SEED.search(keyword.arg))
        yield from _seeding_arguments(ctx.module, call, _DEPTH)
    for assignment in index.of_type(ast.Assign):
        if any(_SEED.search(_identifier(target)) for target in assignment.targets):
            yield assignment.value
    for annotated in index.of_type(ast.AnnAssign):
        if annotated.value is not None and _SEED.search(_identifier(annotated.target)):
            yield annotated.value


def _identifier(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _seeding_arguments(module: Module, call: ast.Call, depth: int) -> Iterator[ast.expr]:
    """Yield the arguments of a call that a function of the project hands to a seeder."""
    if depth == 0 or not (call.args or call.keywords):
        return
    for name in module.inference.callees(call):
        definition = module.project.definition(name)
        if definition is None:
            continue
        owner, function = definition
        if not isinstance(function, FUNCTIONS):
            continue
        for parameter in _seeding_parameters(owner, function, depth):
            value = argument_of(function, parameter, call, skip_self=isinstance(call.func, ast.Attribute))
            if value is not None:
                yield value


def _seeding_parameters(module: Module, function: FunctionNode, depth: int) -> Iterator[str]:
    """Yield the parameters of a function that take part in a seed, there or in the functions it calls."""
    names = {parameter.arg for parameter, _ in parameters(function.args)}
    values = [seed.value for seed in seeds_in(module) if module.index.function_at(seed.node) is function]
    for call in module.index.of_type(ast.Call):
        if depth > 1 and module.index.function_at(call) is function:
            values.extend(_seeding_arguments(module, call, depth - 1))
    for value in values:
        for origin in origins(module, value, ()) if value is not None else ():
            if isinstance(origin.node, ast.Name) and origin.node.id in names:
                yield origin.node.id
