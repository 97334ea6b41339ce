"""Calls that make training steps in functions of the project: `train_epoch(net)`, `self.update(loss)`."""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.programs.training import file_trains, training_steps
from detlint.linter.source.names import FUNCTIONS, LOOPS, FunctionNode
from detlint.linter.source.nodes import arguments_of, stored_names, walk

# How many functions lie between a call and the step that it makes.
_DEPTH = 3
# A function of such a name is worth a look: does it train?
_MAY_TRAIN = re.compile(r"train|fit|learn|optimi|epoch", re.IGNORECASE)


def leads_to_training(module: Module) -> bool:
    """Does a file make training steps, or call functions of the project that do: `Trainer(model).train()`?"""
    if file_trains(module):
        return True
    named = (call for name, calls in module.index.calls_by_name.items() if _MAY_TRAIN.search(name) for call in calls)
    return any(makes_steps(module, call) for call in named)


def makes_steps(module: Module, call: ast.Call, *, one: bool = False, depth: int = _DEPTH) -> bool:
    """Is a call a training step, or does it lead to some (with `one` to a single one, in no loop) in the project?"""
    if call in training_steps(call):
        return True
    called = functions_called(module.inference, call) if depth else ()
    return any(module.project.once(_trains, (*found, one, depth - 1)) for found in called)


def _trains(asked: tuple[Module, FunctionNode, bool, int]) -> bool:
    module, function, one, depth = asked
    calls = _calls_of_a_turn(function) if one else [part for part in walk(function) if isinstance(part, ast.Call)]
    return not set(calls).isdisjoint(training_steps(function)) or any(
        makes_steps(module, call, one=one, depth=depth) for call in calls
    )


def step_takes_same(module: Module, call: ast.Call, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """`hard = pick(net(x))`, and then `self.update(x)`: does a step in the same turn of a loop take the same batch?"""
    bound = stored_names(loop)
    given = bound & _names_given(call)
    return bool(given) and any(
        makes_steps(module, other, one=True)
        for other in _calls_of_a_turn(loop)
        if other is not call and given & _names_given(other)
    )


def _calls_of_a_turn(around: ast.AST) -> list[ast.Call]:
    """Return the calls that a loop or function makes in each turn, without those of loops and functions inside it."""
    nested = [part for part in walk(around) if part is not around and isinstance(part, (*LOOPS, *FUNCTIONS))]
    inner = {part for place in nested for part in walk(place)}
    return [part for part in walk(around) if isinstance(part, ast.Call) and part not in inner]


def _names_given(call: ast.Call) -> set[str]:
    return {part.id for argument in arguments_of(call) for part in walk(argument) if isinstance(part, ast.Name)}
