"""Functions that leave the model they are given in eval mode, where a loop of another file trains it after that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from detlint.linter.analysis.calls_elsewhere import calls_elsewhere
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.eval_mode_training import EvalModeTraining, eval_mode_trainings
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import receiver_of

# Files that call such a function are read as a whole: how many of them.
_MOST_FILES = 4


@dataclass(frozen=True, slots=True)
class EvalModeHelper:
    """A switch of a parameter to eval mode, and the training in another file that it reaches."""

    switch: ast.Call
    model: str
    module: Module
    training: EvalModeTraining


def eval_mode_helpers(module: Module) -> Iterator[EvalModeHelper]:
    """Yield the switches to eval mode that a file's functions leave on for others."""
    for switch in module.index.calls_by_name.get("eval", ()) if not is_test_file(module) else ():
        model = receiver_of(switch)
        function = module.index.function_at(switch)
        if switched(switch) is not Mode.EVAL or not isinstance(model, ast.Name) or not isinstance(function, FUNCTIONS):
            continue
        if all(binding.kind is BindingKind.PARAMETER for binding in module.definitions(model)):
            reached = (each for each in _trainings(module, function) if (module, switch) in each[1].switches)
            yield from (EvalModeHelper(switch, model.id, *each) for each in islice(reached, 1))


def _trainings(module: Module, function: FunctionNode) -> Iterator[tuple[Module, EvalModeTraining]]:
    """Yield the trainings in eval mode of other files that call a function."""
    callers = dict.fromkeys(other for other, _ in calls_elsewhere(module, function) if other is not module)
    for other in islice(callers, _MOST_FILES):
        yield from ((other, training) for training in eval_mode_trainings(other))
