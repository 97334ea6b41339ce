"""Functions that train or evaluate as their caller says: `run_epoch(net, loader, optimizer=None)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.calls_elsewhere import calls_elsewhere, calls_of_unknown
from detlint.linter.analysis.module import Module
from detlint.linter.programs.training import file_trains, training_steps
from detlint.linter.source.names import BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk


def evaluates_on_request(module: Module, call: ast.Call) -> bool:
    """`run_epoch(net, val_loader, train=False)`: does a call ask a function of the project for no training steps?"""
    asks = any(_asks_for_no_step(*found, call) for found in functions_called(module.inference, call))
    return asks and not _makes_steps(module, call)


def trains_and_evaluates(module: Module, node: ast.AST) -> bool:
    """Is `node` run in train mode for both: in a function that calls `train()`, makes steps only where told to?

    Somebody in the project has to tell it not to; and nobody in that file, nor in that of the function, may call
    `eval()`, if `train()` is up to them as well.
    """
    function = module.index.function_at(node)
    flag = _step_flag(module, function) if function is not None else ""
    if function is None or not flag or _is_under(module, node, flag):
        return False
    switches = [part for part in walk(function) if isinstance(part, ast.Call) and _switches(part)]
    up_to_them = any(_is_under(module, switch, flag) for switch in switches)
    if not switches or (up_to_them and "eval" in module.index.calls_by_name):
        return False
    return any(
        _asks_for_no_step(module, function, call)
        and not _makes_steps(place, call)
        and not (up_to_them and "eval" in place.index.calls_by_name)
        and all(_is_for_train_mode(function, switch, call) for switch in switches)
        for place, call in _calls_of(module, function, flag)
    )


def _calls_of(module: Module, function: FunctionNode, flag: str) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a function in its own file, and in others of the project: those of a method by its flag."""
    for call in module.index.calls_by_name.get(function.name, ()):
        if module.qualified(function) in module.inference.callees(call):
            yield module, call
    yield from calls_elsewhere(module, function)
    yield from calls_of_unknown(module, function, flag)


def _is_for_train_mode(function: FunctionNode, switch: ast.Call, call: ast.Call) -> bool:
    """`net.train()`, and `net.train(training)` where a call leaves out that parameter, which is on by default."""
    asked = [*switch.args, *(keyword.value for keyword in switch.keywords)]
    if not asked:
        return True
    flag = getattr(asked[0], "id", "") if len(asked) == 1 and identifier(switch.func) == "train" else ""
    default = next((value for argument, value in parameters(function.args) if argument.arg == flag), None)
    given = argument_of(function, flag, call, skip_self=isinstance(call.func, ast.Attribute))
    return isinstance(default, ast.Constant) and default.value is True and given is None


def has_step_flag(module: Module) -> bool:
    """Return whether a function of a file is told whether to make training steps."""
    return any(_step_flag(module, function) for function in module.index.of_type(ast.FunctionDef))


def _switches(call: ast.Call) -> bool:
    """`net.train()`, `net.eval()`, `set_mode(net)`."""
    name = identifier(call.func)
    return isinstance(call.func, ast.Attribute) and (name in ("train", "eval") or name.endswith("mode"))


def _asks_for_no_step(module: Module, function: FunctionNode, call: ast.Call) -> bool:
    flag = _step_flag(module, function)
    return bool(flag) and _is_off(function, flag, call)


def _makes_steps(module: Module, call: ast.Call) -> bool:
    """`loss_of(net, x).backward()`: does the function around make the step itself?"""
    around = module.index.function_at(call)
    steps = training_steps(around if around is not None else module.tree)
    return any(module.index.function_at(step) is around for step in steps)


def _step_flag(module: Module, function: FunctionNode) -> str:
    """Return the parameter that decides on every training step of a function; nothing if none does."""
    if not file_trains(module):
        return ""
    return module.project.once(_find_flag, (module, function))


def _find_flag(asked: tuple[Module, FunctionNode]) -> str:
    module, function = asked
    steps = training_steps(function)
    names = [argument.arg for argument, _ in parameters(function.args)]
    return next((name for name in names if steps and all(_is_under(module, step, name) for step in steps)), "")


def _is_under(module: Module, node: ast.AST, flag: str) -> bool:
    """Does `node` run only where a flag is on: under `if flag:`, or after `if phase != "train": continue`?"""
    return any(_is_asked(module, test, flag, holds) for test, holds in module.index.conditions_around(node))


def _is_asked(module: Module, test: ast.expr, flag: str, holds: bool, steps: int = 2) -> bool:
    """Is a flag on where a condition holds (or not): `flag`, `flag is not None`, `phase == "train"`, a name of one?"""
    if isinstance(test, ast.BoolOp):
        all_alike = isinstance(test.op, ast.And) is holds
        return all_alike and any(_is_asked(module, part, flag, holds, steps) for part in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_asked(module, test.operand, flag, not holds, steps)
    if isinstance(test, ast.Compare):
        if len(test.ops) > 1 or getattr(test.left, "id", "") != flag:
            return False
        same = isinstance(test.ops[0], (ast.Is, ast.Eq))
        nothing = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        return holds is not same if nothing else holds is same and _names_training(test.comparators[0])
    if not isinstance(test, ast.Name):
        return False
    if test.id == flag:
        return holds
    bindings = module.definitions(test) if steps else ()
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN else None
    return isinstance(value, ast.expr) and _is_asked(module, value, flag, holds, steps - 1)


def _names_training(node: ast.expr) -> bool:
    """`"train"`, of the phases that a function is told."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "train" in node.value.lower()


def _is_off(function: FunctionNode, flag: str, call: ast.Call) -> bool:
    """Is `False`, `None` or a phase other than `"train"` given for the flag, or left to stand?"""
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    given = argument_of(function, flag, call, skip_self=isinstance(call.func, ast.Attribute))
    value = given or next(default for argument, default in parameters(function.args) if argument.arg == flag)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return not _names_training(value)
    return isinstance(value, ast.Constant) and value.value in (False, None)
