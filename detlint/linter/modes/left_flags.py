"""Flags that a caller leaves out, and that put a model in train mode then: `def evaluate(net, training=True):`."""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls_elsewhere import calls_elsewhere
from detlint.linter.modes.folding import truth
from detlint.linter.modes.frames import Frame
from detlint.linter.modes.names import ModelNames, given_to
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.step_flags import trains_and_evaluates
from detlint.linter.programs.training import trains
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import walk


def is_left_in_train_mode(modes: ModelNames, switch: ast.AST, flag: ast.expr | None, run: ast.AST) -> bool:
    """Does a call of the function around leave out what a switch to train mode asks for, so that `run` is in it?

    That is `flag` in `net.train(flag)`, and the conditions around. Whoever passes it wants that mode.
    """
    function = modes.index.function_at(switch)
    if not isinstance(function, FUNCTIONS) or modes.index.function_at(run) is not function:
        return False
    if not (trains_and_evaluates(modes.module, run) if trains(function) else without_gradients(modes.module, run)):
        return False
    tests = [*modes.index.conditions_around(switch), *([(flag, True)] if flag is not None else [])]
    flags = {part.id for test, _ in tests for part in walk(test) if isinstance(part, ast.Name)}
    flags &= {argument.arg for argument, _ in parameters(function.args)}
    calls = [*modes.callers(function), *(call for _, call in calls_elsewhere(modes.module, function))]
    left_out = (call for call in calls if _leaves_out(flags, function, call))
    return bool(flags) and any(_holds(tests, Frame(function, call, None, modes.module)) for call in left_out)


def _leaves_out(flags: set[str], function: FunctionNode, call: ast.Call) -> bool:
    return all(given_to(function, flag, call) is None for flag in flags)


def _holds(tests: list[tuple[ast.expr, bool]], frame: Frame) -> bool:
    return all(truth(frame, test) is holds for test, holds in tests)
