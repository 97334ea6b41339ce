"""Seeds that nobody can give again (DET103)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.never_taken import is_switched_off
from detlint.linter.analysis.origins import Origin, origins
from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.unpassed import is_asked_about, is_passed, optional_in
from detlint.linter.numbers.hashed_numbers import hashed_numbers
from detlint.linter.programs.loader_workers import worker_initialisers
from detlint.linter.randomness.purpose import draws_decide
from detlint.linter.randomness.repeatable import SALTED, made_up, why_unrepeatable
from detlint.linter.randomness.seed_helpers import SeedHelpers
from detlint.linter.randomness.seeding import Seed, seeds_in
from detlint.linter.randomness.told_seeds import can_be_given_again
from detlint.linter.randomness.unused_seeds import seed_defaults
from detlint.linter.source.names import parameters
from detlint.linter.source.nodes import identifier
from detlint.randomness import load_sources

_SEED = re.compile(r"(^|_)(manual|random|rng|base|init|np|torch|numpy|global)?_?(seed|random_state)$", re.IGNORECASE)
_NAMED = re.compile(r"(^|_)(seeds?|random_states?)$", re.IGNORECASE)
_STEPS = 3
_RESEEDING = ("numpy.random.seed", "random.seed")
_HELPER = re.compile(r"seed|random|determin|reproduc", re.IGNORECASE)
_WHERE_NONE = "the operating system's randomness where the caller gives none"


@check_file("DET103")
def nondeterministic_seed(ctx: Context) -> Iterator[Finding]:
    """One finding for each value that cannot be repeated and takes part in a seed, at that value.

    Where another file makes it for whoever calls that, it is reported at the call that brings it here.
    So for the hash of a text that picks a number for it: a row of an embedding, a part of a split. What a
    worker_init_fn does is reported beside its DataLoader's rule.
    """
    reported: set[ast.AST] = set()
    workers = worker_initialisers(ctx.module)
    for node, source, seed, far in sorted(_found(ctx), key=lambda found: (found[0].lineno, found[0].col_offset)):
        in_worker = any(parent in workers for parent in ctx.ancestors(node))
        if node not in reported and not in_worker:
            reported.add(node)
            related = [(ctx.module, seed, "it takes part in a seed here")] if seed.lineno != node.lineno else []
            related += [(far.module, far.node, "it is made here")] if far is not None else []
            yield ctx.finding(node, what="seed", source=source, related=related)
    for node in hashed_numbers(ctx.module) if not is_test_file(ctx.module) else ():
        if node not in reported:
            yield ctx.finding(node, what="number", source=SALTED)


def _found(ctx: Context) -> Iterator[tuple[ast.expr, str, ast.expr, Origin | None]]:
    """Yield values that cannot be repeated, where they come from, and the seeds in which they take part.

    Of a value that another file makes, yield what brings it here, and that value.
    A test that says so, `seed(None)` or `seed(time())`, wants other numbers in every run; `seed()` looks like a seed.
    """
    module = ctx.module
    in_test = is_test_file(module)
    for seed in seeds_in(module):
        source = made_up(seed)
        meant = in_test and bool(seed.node.args or seed.node.keywords)
        if source and not meant and not _hands_through(seed.node, ctx):
            yield seed.node, source, seed.node, None
    for seed in _reseeding(ctx) if not in_test else ():
        yield seed.node, _WHERE_NONE, seed.node, None
    for value, origin, source in _unrepeatable(ctx):
        if origin.module is module:
            yield origin.node, source, value, None
        elif not _is_reported_there(origin, ctx):
            yield _brought_by(origin, value, ctx), source, value, origin


def _unrepeatable(ctx: Context) -> Iterator[tuple[ast.expr, Origin, str]]:
    """Yield the seeds of a file that no run repeats, the first value behind each that says so, and where it is from."""
    module = ctx.module
    in_test = is_test_file(module)
    given = ((value, in_test) for value in _seed_values(ctx) if not is_switched_off(value, ctx))
    seeds = (*given, *((value, True) for value in _named_seeds(ctx)))
    if not seeds or not any(map(_may_hold_source, (module, *module.imports))):
        return  # few files seed anything, and to ask those that a file imports takes reading them
    for value, only_salted in seeds:
        found = [
            (origin, source)
            for origin in origins(module, value, (module,))
            if (source := why_unrepeatable(origin)) and not (only_salted and source != SALTED)
            if not can_be_given_again(origin.node, ctx.elsewhere(origin.module))
        ]
        nearest = next((each for each in found if each[0].module is module), next(iter(found), None))
        if nearest is not None:
            yield value, *nearest


def _is_reported_there(far: Origin, ctx: Context) -> bool:
    """Does the file that makes a value seed with it too?"""
    return any(origin.node is far.node for _, origin, _ in _unrepeatable(ctx.elsewhere(far.module)))


def _brought_by(far: Origin, value: ast.expr, ctx: Context) -> ast.expr:
    """Return the last expression on the way from a seed to what another file makes that stands in this one."""
    module = ctx.module
    here = [each.node for each in origins(module, value, (module,)) if each.module is module]
    leading = [
        node
        for node in here
        if isinstance(node, (ast.Attribute, ast.Call))
        and any(each.node is far.node for each in origins(module, node, (module,)))
    ]
    return leading[-1] if leading else value


def _named_seeds(ctx: Context) -> Iterator[ast.expr]:
    """Yield what functions and properties of the file give that are called a seed: `def seed(self): return hash(…)`.

    One that is made of the clock there may be meant to be another one each time, one of a hash never is.
    """
    for function in ctx.module.index.of_type(ast.FunctionDef):
        if _NAMED.search(function.name):
            returns = ctx.module.flow(ctx.module.index.scopes[function]).returns()
            yield from (statement.value for statement in returns if statement.value is not None)


def _hands_through(seeding: ast.expr, ctx: Context) -> bool:
    """`def seed(self): torch.cuda.seed()`, called by nobody: the same under another name, for whoever asks for it."""
    function = ctx.function(seeding)
    if function is None or not isinstance(seeding, ast.Call) or function.name != identifier(seeding.func):
        return False
    if {part.arg for part, _ in parameters(function.args)} - {"self", "cls"}:
        return False  # a seed that is given, and not looked at
    documented = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if documented else function.body
    alone = len(body) == 1 and isinstance(body[0], (ast.Expr, ast.Return)) and body[0].value is seeding
    return alone and all(site is None for site in calls_of(function, ctx))


def _reseeding(ctx: Context) -> Iterator[Seed]:
    """Yield where library code seeds a global generator with a parameter of its own that is None by default.

    What the program seeded is lost there, which nobody expects of a data set; a helper that seeds is asked to.
    """
    seen: set[ast.AST | None] = set()
    for seed in seeds_in(ctx.module):
        function = ctx.function(seed.node)
        owner = ctx.module.index.class_at(seed.node)
        if seed.seeder is None or seed.seeder.call.name not in _RESEEDING or function is None or function in seen:
            continue
        if any(_HELPER.search(place.name) for place in (function, owner) if place is not None):
            continue
        if seed.value is not None and _is_left_at_none(seed.value, ctx) and not is_asked_about(seed.value, ctx):
            seen.add(function)
            yield seed


def _is_left_at_none(value: ast.expr, ctx: Context) -> bool:
    """Is a seed None by default, and does nobody in the project pass another one to the function?"""
    if isinstance(value, ast.Name):
        function = optional_in(value, ctx)
        return function is not None and not is_passed(function, value.id, ctx)
    owner = ctx.module.index.class_at(value)
    if not isinstance(value, ast.Attribute) or owner is None or getattr(value.value, "id", "") != "self":
        return False
    writes = [write.value for _, write in ctx.inference.attribute_writes(ctx.inference.class_info(owner), value.attr)]
    return bool(writes) and all(isinstance(write, ast.Name) and optional_in(write, ctx) for write in writes)


def _may_hold_source(module: Module) -> bool:
    """Does a file call anything by the name of what no run repeats? Many do, and most of these call something else."""
    return not module.calls.isdisjoint(load_sources().unrepeatable.lasts | {"hash"})


def _sources(module: Module) -> Iterator[ast.Call]:
    return calls_named(module, load_sources().unrepeatable.lasts | {"hash"})


def _calls_fed(ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls of the file's own functions that get something unrepeatable, straight or through variables."""
    seen: set[ast.AST] = set()
    pending: list[tuple[ast.expr, int]] = [(source, 0) for source in _sources(ctx.module)]
    while pending:
        node, step = pending.pop(0)
        for parent in ctx.ancestors(node):
            if isinstance(parent, ast.Call) and parent not in seen:
                seen.add(parent)
                yield parent
            if isinstance(parent, ast.stmt):
                break
        if isinstance(parent, ast.Assign) and step < _STEPS:
            names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
            flow = ctx.flow(parent)
            bound = [binding for name in sorted(names) for binding in flow.scope.bindings.get(name, ())]
            uses = [use for binding in bound if binding.value is parent.value for use in flow.uses(binding)]
            pending += [(use, step + 1) for use in uses]


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
            if generator is not None and generator.seed and draws_decide(call, ctx):
                yield from call.args[:1]
                yield from (keyword.value for keyword in call.keywords if keyword.arg in generator.seed)
    for call in index.of_type(ast.Call):
        given = call.args[:1] if isinstance(call.func, ast.Attribute) and _SEED.search(call.func.attr) else []
        given += [keyword.value for keyword in call.keywords if keyword.arg and _SEED.search(keyword.arg)]
        if given and not _hides(call, ctx):
            yield from given
    yield from seed_defaults(ctx.module)
    helpers = SeedHelpers()
    for call in _calls_fed(ctx):
        yield from helpers.arguments(ctx.module, call)
    for target, value in index.assigned():
        if _SEED.search(_identifier(target)) and not _is_secret(target, value, ctx):
            yield value


def _is_secret(target: ast.expr, value: ast.expr, ctx: Context) -> bool:
    """`seed = random.SystemRandom()`, which draws, and `seed = os.urandom(32)` that only keys are made of."""
    called = ctx.callees(value) if isinstance(value, ast.Call) else ()
    if any(name.rpartition(".")[2][:1].isupper() and load_sources().unrepeatable.get(name) for name in called):
        return True
    binding = ctx.binding(value) if isinstance(target, ast.Name) else None
    uses = ctx.flow(value).uses(binding) if binding is not None else ()
    return bool(uses) and all(_makes_key(use, ctx) for use in uses)


def _makes_key(use: ast.expr, ctx: Context) -> bool:
    """`SigningKey(seed)`, `hmac.new(seed.encode(), message)`."""
    parent = ctx.parent(use)
    while isinstance(parent, (ast.Attribute, ast.keyword)) or (isinstance(parent, ast.Call) and parent.func is use):
        use, parent = (parent if isinstance(parent, ast.expr) else use), ctx.parent(parent)
    return isinstance(parent, ast.Call) and _hides(parent, ctx)


def _hides(call: ast.Call, ctx: Context) -> bool:
    names = ctx.callees(call)
    return bool(names) and all(map(load_sources().indifferent.hides, names))


def _identifier(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return identifier(target)
