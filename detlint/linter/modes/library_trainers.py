"""Trainers of libraries that are made with a model, and switch it: `trainer = Trainer(net)`, `trainer.train()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.modes.names import ModelNames
from detlint.linter.modes.switches import Mode
from detlint.randomness import load_sources

# What a trainer evaluates on between its epochs, and which of its arguments that is.
_EVALUATES_ON = "eval_dataset"
_PLACE = 4


def switches_by_trainer(names: ModelNames, made: ast.Call) -> Iterator[tuple[ast.Call, Mode]]:
    """Yield the calls that switch the model of a trainer in the function that makes it, each with the mode after it."""
    assignment = names.index.parents.get(names.index.with_choice(made))
    target = assignment.targets[0] if isinstance(assignment, ast.Assign) else None
    holder = names.key(target) if isinstance(target, (ast.Name, ast.Attribute)) else None
    for method in sorted(load_sources().trainer_methods.lasts) if holder is not None else ():
        for call in names.index.calls_by_name.get(method, ()):
            mode = switched_by_trainer(names.module, call)
            if mode is None or not isinstance(call.func, ast.Attribute) or names.key(call.func.value) != holder:
                continue
            if names.body_of(call) is names.body_of(made):
                yield call, Mode.UNKNOWN if mode is Mode.TRAIN and _may_evaluate(made) else mode


def switched_by_trainer(module: Module, call: ast.Call) -> Mode | None:
    """Return the mode in which a method of a library's trainer leaves its model, None where it is no such method."""
    table = load_sources().trainer_methods
    found = {mode for name in module.inference.callees(call) if (mode := table.get(name)) is not None}
    return Mode(found.pop()) if len(found) == 1 else None


def _may_evaluate(made: ast.Call) -> bool:
    """Is a trainer given data to evaluate on? Then its last epoch may end with that, in eval mode."""
    keywords = [keyword.arg for keyword in made.keywords]
    return len(made.args) > _PLACE or _EVALUATES_ON in keywords or None in keywords
