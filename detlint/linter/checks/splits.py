"""Random splits of data that no seed fixes (DET105)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.defaults import may_be_none
from detlint.linter.analysis.origins import made_by
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.testcode import is_unit_test
from detlint.linter.analysis.unpassed import is_never_passed
from detlint.linter.randomness.global_draws import Drawn, global_draws
from detlint.linter.randomness.ignored_seeds import seed_beside
from detlint.linter.randomness.project_seeds import project_seeds_globally
from detlint.linter.randomness.repeated_splits import splits_nothing, why_drawn_again
from detlint.linter.randomness.seeded_later import is_seeded_later
from detlint.linter.randomness.seeding import Seed, depends_on_rank, seeding_of
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk
from detlint.randomness import load_sources

_BY_RANK = "with a seed that depends on the process rank"
# Other splitters draw where they are used.
_DRAWS_AT_ONCE = re.compile(r"random_split$|train_test_split$")
# Functions that split, and parameters that seed them.
_SPLITS = re.compile(r"_split(_|$)|(^|_)split_")
_RANDOM_SPLIT = "random_split"
_SPLITTER = re.compile(r"(^|_)split(_|$)")
# What orders or picks rows at random, and names of what the two parts are for.
_PERMUTATIONS = frozenset(
    {"torch.randperm", "numpy.random.permutation", "pandas.DataFrame.sample", "sklearn.utils.shuffle"}
)
_SHUFFLES = frozenset({"numpy.random.shuffle", "random.shuffle"})  # in place
_PICKS = frozenset({"numpy.random.choice", "random.sample", "pandas.DataFrame.sample"})
_TRAINS = re.compile(r"(^|_)(tr|train|training)(set|data|loader|idx)?(_|$)", re.IGNORECASE)
_TESTS = re.compile(
    r"(^|_)(te|test|testing|val|valid|validation|eval|dev|holdout)(set|data|loader|idx)?(_|$)", re.IGNORECASE
)
_SEED = re.compile(r"(^|_)(seed|random_state|generator|rng)$")
_BY_PLACE = ("iloc", "loc")
_TAKES_OUT = ("drop", "isin", "difference", "setdiff1d")
_EXISTENCE = frozenset({"exists", "isfile", "is_file"})
_DATA = re.compile(r"(^|_)(train|eval)_data(set|loader)?$")
_RANDOM_STATES = ("generator", "random_state", "seed")


@check("DET105")
def unseeded_split(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where it takes a generator, does not shuffle, is thrown away, or where the program seeds its library."""
    if is_unit_test(ctx.module) or not _shuffles(call, ctx) or isinstance(ctx.parent(call.node), ast.Expr):
        return
    if splits_nothing(call.node):
        return
    program = ctx.program_or_library
    for parameter in _RANDOM_STATES:
        argument = call.argument(parameter)
        if argument.hidden:
            return
        if _is_left_to_default(argument.value, ctx):
            continue
        if argument.given and argument.value is not None and not may_be_none(argument.value, ctx):
            if depends_on_rank(ctx.module, argument.value, program):
                yield ctx.finding(call.node, call=call.name, reason=_BY_RANK)
            return
    yield from _unless_seeded(call.node, call.name, _library(call.name), program, ctx)


def _is_left_to_default(state: ast.expr | None, ctx: Context) -> bool:
    """Is a seed a parameter, None by default, that no caller gives, of a function that is not named for its split?

    Calls of the others are findings of their own.
    """
    function = ctx.function(state) if isinstance(state, ast.Name) else None
    if not isinstance(state, ast.Name) or function is None or _SPLITS.search(function.name):
        return False
    return is_never_passed(state, ctx)


@check_file("DET105")
def unseeded_split_of_datasets(ctx: Context) -> Iterator[Finding]:
    """`train_test_split` as a method of what the datasets library loaded, or may have: nothing else splits itself."""
    if is_unit_test(ctx.module):
        return
    for call in ctx.module.index.calls_by_name.get("train_test_split", ()):
        if not isinstance(call.func, ast.Attribute) or ctx.callees(call):
            continue
        if not made_by(ctx.module, call.func.value, "datasets") and not _splits_itself(call, ctx):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        seeded = any(not may_be_none(given[name], ctx) for name in ("seed", "generator") if name in given)
        if not seeded and None not in given and ctx.truth(given.get("shuffle")) is not Truth.NO:
            program = ctx.program_or_library
            yield from _unless_seeded(call, "datasets.Dataset.train_test_split", "numpy", program, ctx)


@check_file("DET105")
def unseeded_split_of_project(ctx: Context) -> Iterator[Finding]:
    """`data.random_split([0.8, 0.2])` of the project, which takes a seed and gets none here."""
    if is_unit_test(ctx.module):
        return
    for name in sorted(filter(_SPLITS.search, ctx.module.calls)):
        for call in ctx.module.index.calls_by_name.get(name, ()):
            library = next((found for callee in ctx.callees(call) if (found := _draws_without(call, callee, ctx))), "")
            if library and not isinstance(ctx.parent(call), ast.Expr):
                program = ctx.program_or_library
                yield from _unless_seeded(call, name, library, program, ctx)


@check_file("DET105")
def unseeded_split_by_hand(ctx: Context) -> Iterator[Finding]:
    """A function of a library for it: `rows = torch.randperm(n)`, `rows[:k]` to train on and `rows[k:]` to test on.

    Silent where a library does so on its way, as it draws batches too, and in programs, where it is one draw of DET101.
    """
    if ctx.program is not None or is_unit_test(ctx.module):
        return
    done: set[FunctionNode] = set()
    for draw in global_draws(ctx):
        function = ctx.function(draw.node)
        if function is None or function in done or _is_made_once(draw.node, ctx) or _stands_in(draw.node, ctx):
            continue
        if not _makes_parts(function.name) and not why_drawn_again(draw.node, ctx):
            continue
        divides = _divides(_shuffled(draw, ctx), ctx) or (draw.name in _PICKS and _leaves_rest(draw.node, ctx))
        if divides and seed_beside(draw, ctx) is None:  # else it is a draw of DET102
            done.add(function)
            yield from _unless_seeded(draw.node, draw.name, draw.library, ctx.program_or_library, ctx)


def _is_made_once(draw: ast.Call, ctx: Context) -> bool:
    """`if not path.exists():` around it: the parts are written to a file, which later runs read."""
    tests = (parent.test for parent in ctx.ancestors(draw) if isinstance(parent, ast.If))
    calls = (part for test in tests for part in walk(test) if isinstance(part, ast.Call))
    return any(identifier(call.func) in _EXISTENCE for call in calls)


def _stands_in(draw: ast.Call, ctx: Context) -> bool:
    """`if random_state is None:` around it: only where the caller gives no seed."""
    parts = (part for test, _ in ctx.module.index.conditions_around(draw) for part in walk(test))
    return any(_SEED.search(identifier(part)) for part in parts if isinstance(part, (ast.Name, ast.Attribute)))


def _makes_parts(function: str) -> bool:
    """`split_rows`, `train_val_loaders`."""
    return bool(_SPLITTER.search(function) or (_TRAINS.search(function) and _TESTS.search(function)))


def _shuffled(draw: Drawn, ctx: Context) -> Iterator[ast.expr]:
    """Yield where a permutation is used, and the rows that it puts in order."""
    rows = draw.node.args[0] if draw.name in _SHUFFLES and draw.node.args else None
    if isinstance(rows, ast.Name):
        yield from (use for use in ctx.module.index.uses_of(rows) if ctx.flow(use).path(draw.node, use))
    if draw.name not in _PERMUTATIONS:
        return
    for use in _uses(ctx.chained(draw.node), ctx):  # torch.randperm(n).tolist()
        yield use
        ordered = ctx.parent(use)
        if isinstance(ordered, ast.Attribute) and ordered.attr in _BY_PLACE:
            yield ordered  # table.iloc[:k]
        elif isinstance(ordered, ast.Subscript) and ordered.slice is use:
            yield from _uses(ordered, ctx)


def _leaves_rest(draw: ast.Call, ctx: Context) -> bool:
    """`test = rows.sample(frac=0.2)`, then `train = rows.drop(test.index)`: what was not drawn is the other part."""
    for use in _uses(ctx.chained(draw), ctx):
        around = ctx.parent(use)
        rows = ctx.parent(around) if isinstance(around, ast.Attribute) and around.attr == "index" else around
        taken = isinstance(rows, ast.Call) and identifier(rows.func) in _TAKES_OUT
        left = isinstance(rows, ast.Compare) and isinstance(rows.ops[0], ast.NotIn) and use in rows.comparators
        if taken or left:
            return True
    return False


def _uses(node: ast.expr, ctx: Context) -> Iterable[ast.expr]:
    binding = ctx.binding(node)
    return ctx.flow(node).uses(binding) if binding is not None else ()


def _divides(rows: Iterable[ast.expr], ctx: Context) -> bool:
    """Are rows cut into parts that lie side by side, and do names around say that these train and test?"""
    parts = [part for part in map(ctx.parent, rows) if isinstance(part, ast.Subscript)]
    cuts = [(part, part.slice) for part in parts if isinstance(part.slice, ast.Slice) and part.slice.step is None]
    ends = {ast.unparse(cut.upper) for _, cut in cuts if _is_from_start(cut) and cut.upper is not None}
    begins = {ast.unparse(cut.lower) for _, cut in cuts if cut.lower is not None}
    left = [each for part, cut in cuts if _is_from_start(cut) for each in _leaving_out(part, ctx)]
    if ends.isdisjoint(begins) and not left:
        return False
    statements = {ctx.statement(part) for part in (*(part for part, _ in cuts), *left)}
    words = {identifier(part) for each in statements for part in walk(each) if isinstance(part, ast.expr)}
    trains, tests = any(map(_TRAINS.search, words)), any(map(_TESTS.search, words))
    # What is handed back at once has no names: there one word is enough, for how much the test takes.
    unnamed = len(statements) == 1 and all(isinstance(each, ast.Return) for each in statements)
    return (trains or tests) if unnamed else (trains and tests)


def _is_from_start(cut: ast.Slice) -> bool:
    """`[:n]` and `[0:n]`."""
    return cut.lower is None or (isinstance(cut.lower, ast.Constant) and cut.lower.value == 0)


def _leaving_out(part: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return the uses of `held_out = set(rows[:n])` where `i not in held_out` takes the other part; else nothing."""
    around = ctx.parent(part)
    whole = around if isinstance(around, ast.Call) and part in around.args else part
    uses = list(_uses(whole, ctx))
    asked = ((use, ctx.parent(use)) for use in uses)
    taken = any(
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn) and use in test.comparators
        for use, test in asked
    )
    return uses if taken else []


def _draws_without(call: ast.Call, name: str, ctx: Context) -> str:
    """Return the library that a function of the project splits by where a call leaves out its seed, None by default."""
    owner, function = ctx.module.project.definition(name) or (ctx.module, None)
    if not isinstance(function, FUNCTIONS):
        return ""
    seeds = [
        parameter.arg
        for parameter, default in parameters(function.args)
        if _SEED.search(parameter.arg) and ctx.constant(default) is None
    ]
    hidden = any(isinstance(value, ast.Starred) for value in call.args) or any(k.arg is None for k in call.keywords)
    method = isinstance(call.func, ast.Attribute)
    given = [argument_of(function, seed, call, skip_self=method) for seed in seeds]
    if hidden or len(seeds) != 1 or any(value is not None and ctx.constant(value) is not None for value in given):
        return ""
    return _splits_by(function, seeds[0], ctx.elsewhere(owner))


def _splits_by(function: FunctionNode, seed: str, ctx: Context, steps: int = 3) -> str:
    """Return the library from which a function draws a split that its parameter seeds, itself or in what it calls."""
    table = load_sources().draws
    inside = [part for part in walk(function) if isinstance(part, ast.Call)]
    if steps == 0 or not any(isinstance(part, ast.Name) and part.id == seed for call in inside for part in walk(call)):
        return ""
    for call in inside:
        for name in ctx.callees(call):
            draw = table.get(name)
            if draw is not None:
                return draw.library
            if name in ctx.rule.triggers_by_name:
                return _library(name)
        handed_on = [k.arg for k in call.keywords if k.arg and isinstance(k.value, ast.Name) and k.value.id == seed]
        for name in ctx.callees(call) if handed_on and _SPLITS.search(identifier(call.func)) else ():
            definition = ctx.module.project.definition(name)
            if definition is not None and isinstance(definition[1], FUNCTIONS):
                return _splits_by(definition[1], handed_on[0], ctx.elsewhere(definition[0]), steps - 1)
            return "torch" if _RANDOM_SPLIT in name else ""
    return ""


def _library(name: str) -> str:
    """Return the library from whose generator a splitter draws."""
    return "numpy" if name.startswith("sk") else "torch"


def _splits_itself(call: ast.Call, ctx: Context) -> bool:
    """`rows.train_test_split(test_size=0.2)`: given sizes and nothing to split."""
    if identifier(call.func) != "train_test_split":
        return False
    sizes = {"test_size", "train_size"}.intersection(keyword.arg or "" for keyword in call.keywords)
    numbers = all(isinstance(ctx.constant(given), (int, float)) for given in call.args)
    defined = any(function.name == "train_test_split" for function in ctx.module.index.of_type(ast.FunctionDef))
    return numbers and (bool(sizes) or bool(call.args)) and not defined


def _unless_seeded(node: ast.Call, name: str, library: str, program: Program, ctx: Context) -> Iterator[Finding]:
    again = why_drawn_again(node, ctx)
    if again:
        yield ctx.finding(node, call=name, reason=again)
        return
    seeding = seeding_of(program)
    title = "NumPy" if library == "numpy" else library
    at_once = _DRAWS_AT_ONCE.search(name) or _splits_at_once(node, ctx)
    if at_once and (_is_seeded_with_data(seeding.of(library)) or is_seeded_later(library, ctx.module, node, seeding)):
        yield ctx.finding(node, call=name, reason=f"from {title}'s global generator, before it is seeded")
        return
    if seeding.shared(library) or (program.is_library and _may_be_seeded(node, library, ctx)):
        return
    reason = _BY_RANK if seeding.of(library) else f"from {title}'s global generator, and nothing here seeds it"
    yield ctx.finding(node, call=name, reason=reason)


def _splits_at_once(node: ast.Call, ctx: Context) -> bool:
    """`ShuffleSplit(n_splits=1).split(rows)`: not kept for later."""
    method = ctx.parent(node)
    return isinstance(method, ast.Attribute) and method.attr == "split"


def _is_seeded_with_data(seeds: Sequence[Seed]) -> bool:
    """Does nothing seed but what is given the data: `Trainer(model, train_dataset=rows)`, after it was split?"""
    return bool(seeds) and all(
        seed.seeder is not None
        and seed.seeder.implicit
        and any(_DATA.search(keyword.arg or "") for keyword in seed.node.keywords)
        for seed in seeds
    )


def _may_be_seeded(node: ast.Call, library: str, ctx: Context) -> bool:
    """Does a program of the project that leads to the split, or code on the way, seed the library?

    What seeds anywhere else in the project may be there for programs which reach the split by ways nobody can follow,
    but for a split beside a seed that it makes no use of. A seed which nothing reads is the split's, whoever seeds.
    """
    if seed_beside(Drawn(node, "", library), ctx) is not None:
        return False
    users = {user.module: user for user in users_of(node, ctx)}
    if any(seeding_of(user.program_or_library).shared(library) for user in users.values()):
        return True
    if any(user.program is not None for user in users.values()) or _has_seed_at_hand(node, ctx):
        return False
    return ctx.module.project.folder(ctx.module) is not None and project_seeds_globally(ctx.module, in_tests=False)


def _has_seed_at_hand(node: ast.AST, ctx: Context) -> bool:
    """Is there a seed or a generator among the names of the function, or the attributes of the class and its bases?"""
    function, owner = ctx.function(node), ctx.module.index.class_at(node)
    known = ctx.module.index.scopes[function].bindings if function is not None else ()
    family = ctx.inference.mro(ctx.inference.class_info(owner)) if owner is not None else ()
    return any(_SEED.search(name) for name in (*known, *(name for info in family for name in info.attributes)))


def _shuffles(call: Call, ctx: Context) -> bool:
    """Splitters shuffle always, unless `shuffle` says no (train_test_split), or only when it says yes (KFold)."""
    shuffle = call.argument("shuffle")
    value = (call.passed or {}).get("shuffle") if shuffle.hidden else shuffle.value
    return not shuffle.hidden if value is None else ctx.truth(value) is Truth.YES
