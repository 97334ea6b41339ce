"""Draws from global generators: of programs that seed nothing (DET101), and in libraries (DET104)."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.never_taken import is_switched_off
from detlint.linter.analysis.program import Program, among_scripts
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.repairs import Repair, unsafe
from detlint.linter.analysis.replaced_defaults import is_replaced
from detlint.linter.analysis.testcode import is_test_file, is_unit_test
from detlint.linter.order.spread_work import is_shuffled_to_spread
from detlint.linter.programs.loader_workers import in_loader_worker
from detlint.linter.programs.program_start import insert_at_start
from detlint.linter.programs.smoke import is_smoke_test
from detlint.linter.randomness.early_weights import built_before_seed
from detlint.linter.randomness.global_draws import Drawn, global_draws, matters
from detlint.linter.randomness.project_seeds import is_seeded_by_others
from detlint.linter.randomness.seeded_later import is_seeded_later
from detlint.linter.randomness.seeding import Seeding, seeding_of
from detlint.linter.randomness.train_mode_draws import is_never_in_train_mode
from detlint.linter.randomness.unseeded_runs import runs_unseeded
from detlint.linter.randomness.unused_seeds import seed_defaults, unused_seeds
from detlint.linter.source.names import parameters
from detlint.randomness import LIBRARIES, load_sources

_TITLES = {"torch": "torch", "numpy": "NumPy", "random": "Python"}
# What seeds a library's global generator, and the package to import for it.
_SEEDS = {
    "torch": ("torch", "{}.manual_seed(0)"),
    "numpy": ("numpy", "{}.random.seed(0)"),
    "random": ("random", "{}.seed(0)"),
}
_GENERATOR_PARAMETERS = re.compile(r"(^|_)(generator|rng|random_state|seed|key|prng)$", re.IGNORECASE)
_RELATED = 8


@check_file("DET101")
def unseeded_rng(ctx: Context) -> Iterator[Finding]:
    """Silent about draws that set initial weights, about those that decide nothing, and in what a test runner runs.

    A test that is a program of its own compares what it draws. A seed that is asked for and never read counts too,
    where nothing in the program seeds: what draws may stand in files that are not there to be read.
    """
    if is_unit_test(ctx.module):
        return
    if not is_test_file(ctx.module):
        tried_out = is_smoke_test(ctx.module)
        yield from _imported_draws(None if tried_out else ctx.program, ctx)
        if tried_out:
            return
    options = {draw.node: draw for draw in _option_seeds(ctx)}
    for draw in options.values():
        yield ctx.finding(draw.node, what=_what(draw), it="it")
    if ctx.program is None:
        return
    findings = list(_unseeded_draws(ctx, options))
    yield from findings
    alone = not findings and not options and not is_test_file(ctx.module)
    unused = tuple(unused_seeds(ctx)) if alone else ()
    if unused and not seeding_of(ctx.program).seeds:
        for place, name in unused:
            yield ctx.finding(place, what=f"{name} is never read", it="anything")


@check_file("DET101")
def weights_before_seed(ctx: Context) -> Iterator[Finding]:
    """A finding at the first model that the program trains and builds before it seeds torch.

    Where nothing is seeded at all, first weights are no draw: nobody asked for the same ones.
    """
    if ctx.program is None or is_test_file(ctx.module) or is_smoke_test(ctx.module):
        return
    first, *more = tuple(built_before_seed(ctx.program, ctx)) or (None,)
    if first is not None:
        related = [(ctx.module, call, "built before it too") for call in more[:_RELATED]]
        what = f"{ast.unparse(first.func)}() draws its first weights from torch's global generator"
        yield ctx.finding(first, related=related, what=what, it="it before")


def _what(draw: Drawn) -> str:
    return f"{draw.name} draws from {_TITLES[draw.library]}'s global generator"


def _unseeded_draws(ctx: Context, options: Container[ast.Call]) -> Iterator[Finding]:
    """Yield a finding at the first draw from each library that the program never seeds."""
    assert ctx.program is not None
    others = (
        draw for draw in global_draws(ctx) if draw.node not in options and ctx.program.runs(ctx.module, draw.node)
    )
    drawn = tuple(draw for draw in others if not is_replaced(draw.node, ctx))
    if not drawn:
        return
    seeding = seeding_of(ctx.program)
    for library in LIBRARIES:
        of_library = [draw for draw in drawn if draw.library == library]
        seeds, early = seeding.of(library), []
        if of_library and seeds and all(seed.only_devices for seed in seeds):
            of_library = [draw for draw in of_library if _on_cpu(draw.node)]
        elif of_library and seeds:
            of_library = [draw for draw in of_library if not _is_asked_for(draw.node, ctx)]
            early = [draw for draw in of_library if is_seeded_later(library, ctx.module, draw.node, seeding)]
            of_library = list(_drawn_seeds(of_library, seeding, library)) or early
        found = [draw for draw in of_library if matters(draw, ctx) and not is_switched_off(draw.node, ctx)]
        found = [draw for draw in found if not _is_for_others(draw.node, ctx)]
        found = [draw for draw in found if not is_never_in_train_mode(draw.node, ctx)]
        if found:
            first, *more = found
            related = [(ctx.module, draw.node, f"{draw.name} draws from it too") for draw in more[:_RELATED]]
            repair = None if seeding.of(library) else _seeded(library, first.node, ctx)
            it = "it before" if first in early else "it"
            yield ctx.finding(first.node, related=related, repair=repair, what=_what(first), it=it)


def _is_for_others(draw: ast.Call, ctx: Context) -> bool:
    """Is a draw for programs that seed, or to take other items first than other jobs do?"""
    return is_seeded_by_others(draw, ctx) or is_shuffled_to_spread(draw, ctx)


def _imported_draws(own: Program | None, ctx: Context) -> Iterator[Finding]:
    """Yield a finding at the first draw from each library that no other program which leads there seeds.

    `own` is the program that the file is itself. Of scripts that import each other; the code of a package is for
    programs elsewhere too.
    """
    done: set[str] = set()
    for draw in global_draws(ctx) if among_scripts(ctx.module) else ():
        if own is not None and own.runs(ctx.module, draw.node):
            continue
        if draw.library in done or not matters(draw, ctx) or is_switched_off(draw.node, ctx):
            continue
        done.add(draw.library)
        unseeded = runs_unseeded(draw.node, draw.library, ctx)
        if unseeded:
            yield ctx.finding(draw.node, what=_what(draw), it=unseeded)


def _option_seeds(ctx: Context) -> Iterator[Drawn]:
    """Yield the draws that are the default of a seed on the command line: nothing is seeded yet when they are made."""
    table = load_sources().draws
    for part in (part for default in seed_defaults(ctx.module) for part in ast.walk(default)):
        names = ctx.callees(part) if isinstance(part, ast.Call) else ()
        drawn = next(((name, draw) for name in names if (draw := table.get(name))), None)
        if drawn is not None and isinstance(part, ast.Call):
            yield Drawn(part, drawn[0], drawn[1].library)


def _seeded(library: str, draw: ast.Call, ctx: Context) -> Repair | None:
    package, line = _SEEDS[library]
    changes = insert_at_start(ctx.module, package, line, draw)
    return unsafe("seed it with a fixed number", *changes) if changes else None


@check_file("DET104")
def global_rng_in_library(ctx: Context) -> Iterator[Finding]:
    """Silent where a generator or a seed comes in as a parameter."""
    if ctx.program is not None or is_test_file(ctx.module):
        return
    for draw in global_draws(ctx):
        function = ctx.function(draw.node)
        if function is None or any(
            _GENERATOR_PARAMETERS.search(parameter.arg) for parameter, _ in parameters(function.args)
        ):
            continue
        yield ctx.finding(draw.node, call=draw.name, library=_TITLES[draw.library], place=f"{function.name}()")


def _on_cpu(call: ast.Call) -> bool:
    """Is this a function of torch that names no device, and so draws from the generator of the CPU?"""
    named = isinstance(call.func, ast.Attribute) and not call.func.attr.endswith(("_like", "_", "sample"))
    return named and all(keyword.arg not in ("device", None) for keyword in call.keywords)


def _drawn_seeds(drawn: list[Drawn], seeding: Seeding, library: str) -> Iterator[Drawn]:
    """Yield the draws that make up the seeds of a program which has no other seed for their own library.

    What seeds the workers of a loader comes too late for a seed that is drawn before.
    """
    by_node = {draw.node: draw for draw in drawn}
    made_of = {seed: {origin.node for origin in seeding.origins(seed)} for seed in seeding.seeds}
    main = (seed for seed in seeding.of(library) if not in_loader_worker(seed.module, seed.node))
    independent = [seed for seed in main if made_of[seed].isdisjoint(by_node)]
    if not independent:
        used = set().union(*made_of.values())
        yield from (draw for node, draw in by_node.items() if node in used)


def _is_asked_for(node: ast.AST, ctx: Context) -> bool:
    """`if args.seed is None: args.seed = randint(…)` of an option with a default: who wants that has to say so."""
    statement = ctx.statement(node)
    targets = map(ast.unparse, statement.targets) if isinstance(statement, ast.Assign) else ()
    asked = [
        ast.unparse(test.left)
        for test, holds in ctx.module.index.branches_around(node)
        if isinstance(test, ast.Compare) and truth_by_default(test, ctx) is (Truth.NO if holds else Truth.YES)
    ]
    return any(target in asked for target in targets)
