"""Data loaders whose order or workers no seed fixes (DET106)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import MISSING, Call, Context
from detlint.linter.analysis.defaults import may_be_none, truth_by_default
from detlint.linter.analysis.dicts import is_changed, may_hold, parts_spread
from detlint.linter.analysis.origins import origins, passed
from detlint.linter.analysis.program import among_scripts
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.spread import all_spread
from detlint.linter.analysis.testcode import is_unit_test
from detlint.linter.analysis.unsaid import only_definition
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.evaluation import identifiers
from detlint.linter.programs.loader_workers import worker_initialisers
from detlint.linter.programs.smoke import is_smoke_test
from detlint.linter.randomness.project_seeds import is_seeded_by_others, project_seeds_globally
from detlint.linter.randomness.purpose import decides
from detlint.linter.randomness.repeatable import made_up, why_unrepeatable
from detlint.linter.randomness.seeding import may_be_spread, seeding_of, seeds_in
from detlint.linter.randomness.unseeded_runs import runs_unseeded
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import walk

_SAMPLERS = ("RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler")
_GENERATORS = re.compile(r"seed|generator|(^|_)rng$|random_state|sampler", re.IGNORECASE)
_TRAIN, _TEST = re.compile("train", re.IGNORECASE), re.compile(r"test|val|dev|infer", re.IGNORECASE)
# Words of a class of loaders that sees to its own order.
_OWN_ORDER = frozenset({"generator", "Generator", "manual_seed", "sampler", "batch_sampler", "seed"})
_UNSEEDED = "the order of this loader comes from torch's global generator, and nothing in this program seeds it"


@check("DET106")
def unseeded_dataloader(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent with a generator of its own, in tests, in programs that seed torch, in libraries that no other uses.

    So it is where nothing is taken from the loader.
    """
    if is_unit_test(ctx.module) and ctx.function(call.node) is not None:
        return
    if _has_generator(call, ctx):
        return
    if _makes_up_items(call.argument("dataset").value, ctx):
        return
    if _draws_order(call, ctx) and decides(call.node, ctx) and _runs_unseeded(call.node, ctx):
        yield ctx.finding(call.node, what=_UNSEEDED)


@check_file("DET106")
def unseeded_loader_of_class(ctx: Context) -> Iterator[Finding]:
    """`super().__init__(data, shuffle=True)` in a class of loaders."""
    for node in ctx.module.index.calls_by_name.get("__init__", ()):
        made = (name.removesuffix(".__init__") for name in ctx.callees(node))
        trigger = next((each for name in made if (each := ctx.rule.triggers_by_name.get(name)) is not None), None)
        call = Call(node, trigger) if trigger is not None and not is_unit_test(ctx.module) else None
        if call is None or _has_generator(call, ctx) or _makes_up_items(call.argument("dataset").value, ctx):
            continue
        if _draws_order(call, ctx) and _runs_unseeded(node, ctx):
            yield ctx.finding(node, what=_UNSEEDED)


def _has_generator(call: Call, ctx: Context) -> bool:
    """Is a loader given a generator, or may one be among the options that are spread into its call?"""
    generator = call.argument("generator")
    if generator.hidden:
        return may_be_spread(ctx.module, call.node, "generator")
    return generator.value is not None and not may_be_none(generator.value, ctx)


def _makes_up_items(data: ast.expr | None, ctx: Context) -> bool:
    """Does a data set of the project never look at the index it is asked for? Then any order gives the same items."""
    values = ctx.values(data) if data is not None else ()
    infos = [ctx.inference.class_named(value.type) for value in values if value.kind is Kind.INSTANCE]
    return bool(infos) and len(infos) == len(values) and all(info and _ignores_index(info, ctx) for info in infos)


def _ignores_index(info: ClassInfo, ctx: Context) -> bool:
    getter = next(
        (each.methods["__getitem__"] for each in ctx.inference.mro(info) if "__getitem__" in each.methods), None
    )
    if getter is None or not any(isinstance(part, ast.Return) for part in walk(getter)):
        return False  # inherited, or still to be written
    named = [parameter.arg for parameter, _ in parameters(getter.args)]
    return len(named) == 2 and named[1] not in identifiers(getter)


@check("DET106", nodes=(ast.keyword,))
def unseeded_loader_of_project(shuffle: ast.keyword, ctx: Context) -> Iterator[Finding]:
    """`make_loader(data, shuffle=True)`: what makes loaders in another file, or is one, is told to shuffle here."""
    if shuffle.arg != "shuffle" or ctx.program is None or ctx.truth(shuffle.value) is not Truth.YES:
        return
    call = ctx.parent(shuffle)
    if not isinstance(call, ast.Call) or is_unit_test(ctx.module) or _brings_generator(call, ctx):
        return
    shuffles = any(_shuffles_loader(name, ctx) for name in ctx.callees(call))
    if shuffles and decides(call, ctx) and _runs_unseeded(call, ctx):
        yield ctx.finding(call, what=_UNSEEDED)


def _brings_generator(call: ast.Call, ctx: Context) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    named = [value for name, value in given.items() if name is not None and _GENERATORS.search(name)]
    return None in given or any(ctx.constant(value) is not None for value in named)


def _shuffles_loader(name: str, ctx: Context) -> bool:
    """Does a function of another file make a loader in the order that its parameter `shuffle` asks for?

    Or one of any file, this one too, with what its `**options` ask for. A class derived from a loader is one, where it
    says nothing of generators or samplers.
    """
    definition = ctx.module.project.definition(name)
    if definition is None:
        return False
    owner, found = definition
    where = ctx.elsewhere(owner)
    if isinstance(found, ast.ClassDef):
        bases = where.inference.external_bases(where.inference.class_info(found)) if owner is not ctx.module else ()
        return not ctx.rule.triggers_by_name.keys().isdisjoint(bases) and _OWN_ORDER.isdisjoint(identifiers(found))
    if all(parameter.arg != "shuffle" for parameter, _ in parameters(found.args)):
        return any(_takes_options(loader, found, where) for loader in _loaders_in(found, where))
    return owner is not ctx.module and any(_follows(loader, where) for loader in _loaders_in(found, where))


def _loaders_in(function: FunctionNode, ctx: Context) -> Iterator[Call]:
    for call in walk(function):
        triggers = map(ctx.rule.triggers_by_name.get, ctx.callees(call)) if isinstance(call, ast.Call) else ()
        trigger = next((each for each in triggers if each is not None), None)
        if trigger is not None and isinstance(call, ast.Call):
            yield Call(call, trigger)


def _takes_options(loader: Call, function: FunctionNode, ctx: Context) -> bool:
    """`DataLoader(rows, **{**COMMON, **options})`, where none but the caller can give a generator."""
    taken = function.args.kwarg.arg if function.args.kwarg is not None else ""
    spread = [keyword.value for keyword in loader.node.keywords if keyword.arg is None]
    parts = [part for options in spread for part in parts_spread(ctx.module, options)]
    handed = [part for part in parts if isinstance(part, ast.Name) and part.id == taken]
    named = any(keyword.arg in ("shuffle", "generator", "sampler") for keyword in loader.node.keywords)
    if any(is_changed(ctx.module, part) for part in handed):
        return False  # `options["sampler"] = sampler`
    own = (part for part in parts if part not in handed)
    return not named and bool(handed) and not any(may_hold(ctx.module, part, "generator") for part in own)


def _follows(call: Call, ctx: Context) -> bool:
    """Does a loader shuffle where the parameter `shuffle` says so, and has no generator of its own?"""
    if _has_generator(call, ctx):
        return False
    shuffle, sampler = call.argument("shuffle").value, call.argument("sampler").value
    if isinstance(shuffle, ast.Name) and shuffle.id == "shuffle":
        return True
    return sampler is not None and (
        _is_random(sampler, ctx) or any(_is_random(s, ctx) for s in _sampler_inside(sampler, ctx))
    )


def _runs_unseeded(node: ast.AST, ctx: Context) -> bool:
    """Does a program run this that never seeds torch?

    Library code is followed to the programs that use it only among scripts, and where the whole project seeds no more
    than generators of its own: anywhere else that takes long, and says little of what else its programs import.
    """
    if ctx.program is not None and not is_smoke_test(ctx.module) and ctx.program.runs(ctx.module, node):
        return not seeding_of(ctx.program).shared("torch") and not is_seeded_by_others(node, ctx)
    if project_seeds_globally(ctx.module) and not among_scripts(ctx.module):
        return False
    return runs_unseeded(node, "torch", ctx) == "it"  # a loader that is made early draws when it is gone through


@check_file("DET106")
def unrepeatable_workers(ctx: Context) -> Iterator[Finding]:
    """A worker_init_fn that seeds from what no other run repeats."""
    workers = worker_initialisers(ctx.module)
    if not workers:
        return
    for seed in seeds_in(ctx.module):
        if workers.isdisjoint(ctx.ancestors(seed.node)):
            continue
        behind = origins(ctx.module, seed.value, (ctx.module,)) if seed.value is not None else ()
        source = made_up(seed) or next((why for origin in behind if (why := why_unrepeatable(origin))), "")
        if source:
            yield ctx.finding(seed.node, what=f"this loader's workers take their seed from {source}")


def _draws_order(call: Call, ctx: Context) -> bool:
    """Does the loader draw its order from torch's global generator?"""
    sampler = call.argument("sampler")
    if sampler.given and _is_random(sampler.value, ctx):
        return True
    batches = call.argument("batch_sampler")
    if batches.given and batches.value is not None:
        return any(_is_random(argument, ctx) for argument in _sampler_inside(batches.value, ctx))
    shuffle = call.argument("shuffle")
    if shuffle.hidden:  # `if train: options["shuffle"] = True`
        return any(_may_shuffle(value, ctx) for value in all_spread("shuffle", call.node, ctx))
    return shuffle.given and shuffle.value is not None and _may_shuffle(shuffle.value, ctx)


def _is_random(sampler: ast.expr | None, ctx: Context) -> bool:
    """Is this one of torch's random samplers, without a generator of its own?"""
    for value in ctx.values(sampler) if sampler is not None else ():
        owner, _, last = value.type.rpartition(".")
        if owner == "torch.utils.data" and last in _SAMPLERS and isinstance(value.node, ast.Call):
            given = {keyword.arg: keyword.value for keyword in value.node.keywords}
            generator = given.get("generator")
            if None not in given and (generator is None or may_be_none(generator, ctx)):
                return True
    return False


def _sampler_inside(batches: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    for value in ctx.values(batches):
        if value.type == "torch.utils.data.BatchSampler" and isinstance(value.node, ast.Call):
            yield from value.node.args[:1]
            yield from (keyword.value for keyword in value.node.keywords if keyword.arg == "sampler")


def _asks_for_train(test: ast.Compare, ctx: Context) -> bool:
    """`split == "train"`, `split != "test"`, where a call of the function in the file, if there is any, is for that."""
    wanted, equal = ctx.constant(test.comparators[0]), isinstance(test.ops[0], ast.Eq)
    asked = isinstance(test.ops[0], (ast.Eq, ast.NotEq)) and isinstance(wanted, str)
    if not asked or not (_TRAIN if equal else _TEST).search(str(wanted)):
        return False
    bindings = ctx.module.definitions(test.left) if isinstance(test.left, ast.Name) else ()
    if len(bindings) != 1 or not isinstance(function := bindings[0].scope.node, FUNCTIONS):
        known = ctx.constant(test.left)
        return known is MISSING or (known == wanted) is equal
    given = [ctx.constant(origin.node) for origin in passed(ctx.module, function, bindings[0].name, (ctx.module,))]
    return not given or any(value is MISSING or (value == wanted) is equal for value in given)


def _is_for_train(binding: Binding, ctx: Context) -> bool:
    """`if split == "train": shuffle = True`."""
    if binding.kind is not BindingKind.ASSIGN or binding.value is None or ctx.truth(binding.value) is not Truth.YES:
        return False
    around = ctx.module.index.branches_around(binding.node)
    return any(holds and isinstance(test, ast.Compare) and _asks_for_train(test, ctx) for test, holds in around)


def _may_shuffle(shuffle: ast.expr, ctx: Context) -> bool:
    """Shuffled always, by default, on the path where there is no sampler, or for the part of the data to train on."""
    if isinstance(shuffle, ast.IfExp) and (ctx.truth(shuffle.body), ctx.truth(shuffle.orelse)) == (Truth.YES, Truth.NO):
        return _may_shuffle(shuffle.test, ctx)
    if isinstance(shuffle, ast.Compare) and len(shuffle.ops) == 1:
        return isinstance(shuffle.ops[0], ast.Is) or _asks_for_train(shuffle, ctx)
    binding = only_definition(shuffle, ctx) if isinstance(shuffle, ast.Name) else None
    chosen = binding.value if binding is not None and binding.kind is BindingKind.ASSIGN else None
    if isinstance(chosen, (ast.Compare, ast.IfExp)):
        return _may_shuffle(chosen, ctx)
    if isinstance(shuffle, ast.Name) and any(_is_for_train(each, ctx) for each in ctx.module.definitions(shuffle)):
        return True
    return truth_by_default(shuffle, ctx) is Truth.YES
