"""Does anything ask torch for deterministic algorithms?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import importers
from detlint.linter.analysis.context import Call
from detlint.linter.analysis.program import Program, among_scripts, calls_named
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.randomness.seeding import is_off, may_be_spread, seeding_of
from detlint.linter.randomness.trainer_settings import determinism_settings, full_determinism
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# Switches cuDNN alone, which leaves torch's own kernels as they are.
_CUDNN_ONLY = "torch.backends.cudnn.flags"
_SETTING = "deterministic"
_MAKES = "hydra.utils.instantiate"
_MOST_FILES = 16


def asks_for_deterministic_algorithms(ctx: Context) -> bool:
    """Return whether the program turns deterministic algorithms on.

    For library code that is the file itself, and for what scripts import from each other, all programs that do so.
    cudnn.deterministic = True does not: operators of torch itself do not look at it.
    """
    if ctx.program is not None:
        return _program_asks(ctx.program)
    return _asks(ctx.module, None) or _is_asked_by_maker(ctx) or _all_programs_ask(ctx)


def _program_asks(program: Program) -> bool:
    if any(_asks(module, program) for module in program.modules):
        return True
    seeds = seeding_of(program).seeds
    return any(seed.seeder is not None and seed.seeder.deterministic == "always" for seed in seeds)


def _all_programs_ask(ctx: Context) -> bool:
    """Is a file one of a folder of scripts, of which each program that imports it asks for deterministic algorithms?"""
    if not among_scripts(ctx.module):
        return False
    users = [user for user in importers(ctx) if user.program is not None and not is_test_file(user.module)]
    return bool(users) and all(user.program is not None and _program_asks(user.program) for user in users)


def _is_asked_by_maker(ctx: Context) -> bool:
    """Does a program of the project ask for it that makes whatever a configuration names, and so may run any code?"""
    search = ctx.module.project.search(_SETTING, ctx.module, _MOST_FILES)
    for path in (search.found or ()) if search is not None else ():
        other = ctx.module.project.at(path)
        makes = any(_MAKES in other.inference.callees(call) for call in calls_named(other, ("instantiate",)))
        if makes and any(not is_off(value) for value in determinism_settings(other)):
            return True
    return False


def _asks(module: Module, program: Program | None) -> bool:
    if any(not is_off(value) for value in determinism_settings(module)):
        return True
    for place, value in full_determinism(module):
        if not is_off(value) and (program is None or program.runs(module, place)):
            return True
    requests = load_sources().requests
    for call in calls_named(module, requests.lasts):
        for name in module.inference.callees(call):
            request = requests.get(name)
            if request is None or name == _CUDNN_ONLY or (program is not None and not program.runs(module, call)):
                continue
            argument = Call(call, request.call).argument(request.parameter)
            if argument.given and not is_off(argument.value):
                return True
            spread = seeding_of(program).may_be_spread if program is not None else may_be_spread
            if argument.hidden and spread(module, call, request.parameter):
                return True
    return False
