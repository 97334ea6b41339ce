"""Seeded programs and trainers that never ask for deterministic algorithms (DET407)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.repairs import Repair, unsafe
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.devices import moves_to_cuda, uses_cuda
from detlint.linter.programs.gradients_off import runs_without_gradients
from detlint.linter.programs.program_start import insert_at_start
from detlint.linter.programs.smoke import is_smoke_test
from detlint.linter.programs.timing import BENCHMARK, CLOCKS, TIMES_CALLS, measures, weighs_training
from detlint.linter.programs.training import file_trains, may_train, training_steps, trains
from detlint.linter.randomness.seeding import Seed, may_seed, seeding_of, seeds_in
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.randomness import load_sources

_WORK = re.compile(
    r"(^|_)(train|fit|finetune|eval|evaluate|evaluation|validate|test|infer|inference|predict|generate|sample|rollout"
    r"|benchmark|attack)(_|$)"
)
_INFERS = ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled", "transformers.pipeline")
_OPTIMIZES = "torch.optim."
_TRAINS = ("lightning.pytorch.Trainer.", "ignite.engine.create_supervised_trainer")
# A method by such a name may be the step of a training loop: not `update` alone, which bars and tables have too.
_STEPS = re.compile(r"^(optimi[sz]e$|(optimi[sz]e|train|update|fit)_)")
_OTHER_DEVICES = ("torch.mps.", "torch.npu.", "torch.xpu.")
_MOST_FILES = 16
_KEEPS_STATE = re.compile(r"^(set_rng_state(_all)?|fork_rng)$")


@check_file("DET407")
def determinism_not_requested(ctx: Context) -> Iterator[Finding]:
    """Silent where anything in the program sets determinism, on or off, and where it cannot all be read.

    In a library, seeds are for its callers to make the most of, but for those of a trainer that stands beside them.
    """
    if is_test_file(ctx.module) or _only_times(ctx) or weighs_training(ctx):
        return
    if ctx.program is None:
        yield from _in_library(ctx)
        return
    if not may_seed(ctx.module):
        return
    seeding = seeding_of(ctx.program)
    explicit = [seed for seed in seeding.of("torch") if _is_explicit(seed)]
    if not explicit or is_smoke_test(ctx.module) or seeding.mentions_determinism:
        return
    work = (_work(ctx) if uses_cuda(ctx) else "") or _work_of_imports(ctx)
    places = (seeding.place_in(ctx.module, seed) for seed in explicit) if work else ()
    place = next((place for place in places if place is not None and not _is_for_timing(place, ctx)), None)
    if place is not None:
        yield ctx.finding(place, repair=_requested(ctx), who="program", work=work)


def _is_explicit(seed: Seed) -> bool:
    """Not what a library does by the way, nor what seeds the devices of others: it is CUDA that is asked for."""
    if seed.seeder is None:
        return True
    return not seed.seeder.implicit and not seed.seeder.call.name.startswith(_OTHER_DEVICES)


def _in_library(ctx: Context) -> Iterator[Finding]:
    """Yield a finding where a file of a library seeds torch for programs of the project, or for its own training."""
    seeds = [seed for seed in seeds_in(ctx.module) if seed.seeder is not None and not seed.seeder.implicit]
    helper = next((seed.node for seed in seeds if "torch" in seed.libraries and _seeds_programs(seed, ctx)), None)
    trainer = _seeded_trainer(seeds, ctx) if helper is None else None
    if helper is not None:
        yield ctx.finding(helper, who="helper", work="is called for work")
    elif trainer is not None and uses_cuda(ctx):
        yield ctx.finding(trainer, who="trainer", work="trains")


def _seeds_programs(seed: Seed, ctx: Context) -> bool:
    """`set_seed(seed)`, which programs call that never ask for determinism: the helper is where all of them can.

    Not one that puts the states of the generators back.
    """
    function = ctx.function(seed.node)
    if function is None or not _is_explicit(seed):
        return False
    if any(_KEEPS_STATE.search(identifier(call.func)) for call in _calls_in(function)):
        return False
    users = (user for user in users_of(seed.node, ctx) if user.module is not ctx.module and user.program is not None)
    return any(True for user in users for _ in determinism_not_requested(user))


def _seeded_trainer(seeds: list[Seed], ctx: Context) -> ast.Call | None:
    """Return where a file of a library that trains seeds torch for the training, in a function it calls or that trains.

    It does so with CUDA and another library beside torch; where a function that trains seeds, and a program runs that,
    torch is enough. Nowhere, if what it imports or a file that leads there sets determinism.
    """
    if not file_trains(ctx.module):
        return None
    for seed in (seed for seed in seeds if "torch" in seed.libraries):
        function = ctx.function(seed.node)
        if function is None:
            continue
        beside = [other for other in seeds if ctx.function(other.node) is function]
        everywhere = len({library for other in beside for library in other.libraries}) > 1
        thorough = everywhere and any(other.only_devices for other in beside)
        if not trains(function) and not (thorough and function.name in ctx.module.index.calls_by_name):
            continue
        users = [user for user in users_of(seed.node, ctx) if user.module is not ctx.module]
        programs = [user.program for user in users if user.program is not None]
        if not thorough and not any(program.runs(ctx.module, seed.node) for program in programs):
            continue
        everything = (Program(ctx.module), *(user.program_or_library for user in users))
        return None if any(seeding_of(program).mentions_determinism for program in everything) else seed.node
    return None


def _only_times(ctx: Context) -> bool:
    """Is the program there to measure speed, itself or by what it calls? What it computes is thrown away."""
    named = BENCHMARK.search(ctx.module.source.path.stem) is not None
    called = ctx.module.index.calls_by_name
    if TIMES_CALLS in called or (named and not CLOCKS.isdisjoint(called)):
        return True
    executed = [node for node in ctx.module.tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    calls = [part for node in ([ctx.module.tree] if named else executed) for part in _calls_in(node)]
    return any(measures(call, ctx) for call in calls) and (named or not _works(calls, ctx))


def _is_for_timing(seed: ast.Call, ctx: Context) -> bool:
    """Does the function that is seeded measure speed and do no other work: `benchmark_config(config, size)`?"""
    function = ctx.function(seed)
    calls = [*_calls_in(function)] if function is not None else []
    return any(measures(call, ctx) for call in calls) and not _works(calls, ctx)


def _works(calls: list[ast.Call], ctx: Context) -> bool:
    return any(_WORK.search(identifier(call.func)) and not measures(call, ctx) for call in calls)


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (part for part in walk(node) if isinstance(part, ast.Call))


def _requested(ctx: Context) -> Repair | None:
    environment = insert_at_start(ctx.module, "os", '{}.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")')
    flag = insert_at_start(ctx.module, "torch", "{}.use_deterministic_algorithms(True)")
    return unsafe("ask for it where the program starts", *environment, *flag) if environment and flag else None


def _work_of_imports(ctx: Context) -> str:
    """Say "trains" where an optimizer's step in a file that the program imports is run, and work is put on CUDA."""
    program = ctx.program
    assert program is not None
    training = [
        ctx.elsewhere(other)
        for other in program.modules
        if other is not ctx.module and may_train(other)
        if any(_drives(step, other) and program.runs(other, step) for step in training_steps(other.tree))
    ]
    return "trains" if training and any(map(uses_cuda, (ctx, *training))) else ""


def _drives(step: ast.Call, module: Module) -> bool:
    """Is it the step of an optimizer in code that trains? In `def step(self):` one optimizer hands on to another."""
    function = module.index.function_at(step)
    return identifier(step.func) == "step" and (function is None or function.name != "step")


def _work(ctx: Context) -> str:
    """Return what the file does with a model: "trains", "infers", or nothing."""
    module = ctx.module
    if file_trains(module):
        return "trains"
    inferring, trainers = False, load_sources().trainers
    for call in module.index.of_type(ast.Call):
        names = ctx.callees(call)
        if any(name.startswith(_OPTIMIZES) for name in names) or _steps(call, names, ctx):
            return "trains"
        last = identifier(call.func)
        if _WORK.search(last) and any(_is_no_check(module.project.definition(name)) for name in names):
            if "train" in last or "fit" in last:
                return "trains"
            inferring = True
        if any(name.startswith(_TRAINS) or name.rpartition(".")[0] in trainers for name in names):
            return "trains"
        inferring |= any(name in _INFERS for name in names) or _sets_eval(call) or _runs_on_cuda(call, ctx)
        inferring = inferring or runs_without_gradients(module, call)
    return "infers" if inferring else ""


def _is_no_check(found: tuple[Module, ast.AST] | None) -> bool:
    """Is something defined that does more than `validate_inputs(shape)`, which raises errors and gives nothing?"""
    if found is None or not isinstance(found[1], FUNCTIONS) or "validate" not in found[1].name:
        return found is not None
    parts = list(walk(found[1]))
    gives = any(isinstance(part, ast.Return) and part.value is not None for part in parts)
    return gives or not any(isinstance(part, ast.Raise) for part in parts)


def _steps(call: ast.Call, names: tuple[str, ...], ctx: Context) -> bool:
    """`model.optimize_parameters()`: does a method of that name train, in whatever class of the project it stands?"""
    last = identifier(call.func)
    if names or not isinstance(call.func, ast.Attribute) or not _STEPS.search(last):
        return False
    search = ctx.module.project.search(last, ctx.module, _MOST_FILES)
    others = (ctx.module.project.at(path) for path in (search.found or () if search is not None else ()))
    return any(
        function.name == last and other.index.class_at(function) is not None and trains(function)
        for other in others
        if other is not None
        for function in other.index.of_type(ast.FunctionDef)
    )


def _sets_eval(call: ast.Call) -> bool:
    """`model.eval()`: who says that means to run it, by whatever method."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "eval" and not arguments_of(call)


def _runs_on_cuda(call: ast.Call, ctx: Context) -> bool:
    """`calculator(x)`, after `calculator = Calculator(path, device="cuda")`."""
    made = [binding.value for binding in ctx.module.definitions(call.func)] if isinstance(call.func, ast.Name) else []
    return any(isinstance(value, ast.Call) and moves_to_cuda(value) for value in made)
