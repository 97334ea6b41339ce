"""Does code train? Evidence from backward passes, optimizer steps, and conditions that ask for the mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.source.index import Index
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, walk

_MODE_WORDS = re.compile(r"train(?!er)|eval|infer|(^|_)(test|mode|phase|stage|mc|switch)(_|$)", re.IGNORECASE)
_MODE_KEY = re.compile(r"(is_)?(train|training|eval|test)(_mode)?|mode|phase|stage", re.IGNORECASE)
# Flags that ask for a test, not for a mode.
_TESTS = re.compile(r"(^|_)(test|validate|predict)(_|$)")
_STEP_FUNCTIONS = ("backward", "train_step", "training_step")
_STEP_METHODS = ("backward", "manual_backward", "train_on_batch")
# Methods of optimizers; `net.zero_grad()` alone, in a copy of the loop that trains, trains nothing.
_OPTIMIZER_METHODS = ("step", "zero_grad")
_STEPS = (*_STEP_FUNCTIONS, *_STEP_METHODS, *_OPTIMIZER_METHODS, "grad")
# `dropout_train`, `_conv_bn_pattern`: a graph to look for in a model that trains, or to put there.
_TRAINING_NAME = re.compile(r"(^|_)(train(ing)?|pattern)(_|$)")
# What a model says of itself: where that holds (or does not), nobody trains.
_HOLDS_IN_EVAL = {"training": False, "export": True}
# Comparisons that ask for more or less.
_ORDER = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
# Steps found under functions, loops and modules, for as long as their trees are in memory.
_steps_of: WeakKeyDictionary[ast.AST, tuple[ast.Call, ...]] = WeakKeyDictionary()
_OPTIMIZER = re.compile(r"opt|scaler|engine|accelerator|fabric|(^|_)solver", re.IGNORECASE)


def asks_for_mode(node: ast.AST) -> bool:
    """Return whether an expression reads something named after a mode: `self.training`, `is_train`, `phase`.

    So does `flags["train_mode"]`, the mode itself under a key.
    """
    for part in walk(node):
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if name and _MODE_WORDS.search(name):
            return True
        key = part.slice if isinstance(part, ast.Subscript) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and _MODE_KEY.fullmatch(key.value):
            return True
    return False


def depends_on_mode(module: Module, node: ast.expr, depth: int = 3) -> bool:
    """Return whether an expression asks for the mode itself, through the variables it reads, or what it calls."""
    if asks_for_mode(node):
        return True
    if depth == 0:
        return False
    for name in walk(node):
        called = functions_called(module.inference, name) if isinstance(name, ast.Call) else ()
        if any(asks_for_mode(function) for _, function in called):
            return True
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
            for binding in module.definitions(name):
                if binding.value is not None and depends_on_mode(module, binding.value, depth - 1):
                    return True
                if any(asks_for_mode(test) for test in _tests_around(module.index, binding.node)):
                    return True
    return False


def guarded_by_mode(module: Module, node: ast.AST) -> bool:
    """Return whether a condition that asks for the mode decides if `node` is reached at all."""
    if any(asks_for_mode(test) for test in _tests_around(module.index, node)):
        return True
    function = module.index.function_at(node)
    left = module.project.once(_left_by_mode, function) if function is not None else ()
    return any(statement.lineno < getattr(node, "lineno", 0) for statement in left)


def _left_by_mode(function: FunctionNode) -> tuple[ast.If, ...]:
    """Return the conditions that ask for the mode and leave the function or the turn: `if training: return x`."""
    return tuple(
        statement
        for statement in walk(function)
        if isinstance(statement, ast.If)
        and isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue))
        and asks_for_mode(statement.test)
    )


def runs_in_eval_only(module: Module, node: ast.AST) -> bool:
    """Return whether `if not self.training` or `if self.export` leads to `node`, or the other branch.

    So for what comes after `if self.training: return x`.
    """
    return any(_leads_to(test, holds, in_eval=True) for test, holds in module.index.conditions_around(node))


def runs_in_training_only(module: Module, node: ast.AST) -> bool:
    """Return whether `if self.training` leads to `node`, or it comes after `if not self.training: return x`."""
    return any(_leads_to(test, holds, in_eval=False) for test, holds in module.index.conditions_around(node))


def spared_by_mode(module: Module, node: ast.AST) -> bool:
    """Return whether a condition on the mode keeps inference away from `node`, or may do so."""
    return guarded_by_mode(module, node) and not runs_in_eval_only(module, node)


def _leads_to(test: ast.expr, holds: bool, *, in_eval: bool) -> bool:
    """Is it eval mode (or train mode) where a condition holds (or does not)?

    `self.export and fast`, `else` of `self.training or x`.
    """
    if isinstance(test, ast.BoolOp):
        all_alike = isinstance(test.op, ast.And) is holds
        return all_alike and any(_leads_to(value, holds, in_eval=in_eval) for value in test.values)
    return holds_in_eval_only(test) is (holds is in_eval)


def holds_in_eval_only(test: ast.expr) -> bool | None:
    """Return whether a condition holds in eval mode alone (`not self.training`), or in train mode; None of others."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = holds_in_eval_only(test.operand)
        return None if inner is None else not inner
    return _HOLDS_IN_EVAL.get(test.attr) if isinstance(test, ast.Attribute) else None


def chosen_by_caller(module: Module, switch: ast.AST) -> bool:
    """Return whether a condition picks a switch, with no training under it: `if training: model.train()`.

    `if args.test: model.train()` asks for a test.
    """
    child = switch
    for parent in module.index.ancestors(switch):
        if isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(parent, ast.If) and child is not parent.test and _picks_mode(parent.test):
            tests = child in parent.body and _TESTS.search(identifier(parent.test)) is not None
            return not tests and not any(training_steps(statement) for statement in parent.body)
        child = parent
    return False


def _picks_mode(test: ast.expr) -> bool:
    """`if training and rank == 0:`; `step % eval.interval == 0` and `epoch >= train.epochs` tell the time."""
    pending: list[ast.expr] = [test]
    for part in pending:  # grows on the way
        if isinstance(part, ast.BoolOp):
            pending += part.values
        elif isinstance(part, ast.UnaryOp):
            pending.append(part.operand)
        elif not _counts_something(part) and asks_for_mode(part):
            return True
    return False


def _counts_something(test: ast.expr) -> bool:
    """`epoch % val_every == 0`, `len(val_set) > 0`, `best < val_loss`."""
    if not isinstance(test, ast.Compare):
        return False
    return any(isinstance(op, _ORDER) for op in test.ops) or any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in (test.left, *test.comparators)
    )


def _tests_around(index: Index, node: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions inside the function under which `node` is evaluated."""
    child = node
    for parent in index.ancestors(node):
        if isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
            return
        if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
            yield parent.test
        elif isinstance(parent, ast.BoolOp):
            yield from parent.values[: parent.values.index(child)] if child in parent.values else ()
        child = parent


def training_steps(node: ast.AST) -> tuple[ast.Call, ...]:
    """Return the calls under `node` that train: backward passes, optimizer steps, gradients asked for."""
    known = _steps_of.get(node)
    if known is None:
        known = tuple(call for call in walk(node) if isinstance(call, ast.Call) and _is_step(call))
        if node not in known:  # else it would keep itself alive
            _steps_of[node] = known
    return known


def may_train(module: Module) -> bool:
    """Return whether a file calls anything by the name of a training step: cheaper than to look at the calls."""
    return not module.calls.isdisjoint(_STEPS)


def file_trains(module: Module) -> bool:
    """Return whether anything in a file makes a training step."""
    calls = module.index.calls_by_name
    return any(_is_step(call) for name in _STEPS for call in calls.get(name, ()))


def trains(node: ast.AST) -> bool:
    """Return whether a function, a loop, or anything in a module, makes a training step itself."""
    return bool(training_steps(node))


def named_for_training(function: FunctionNode) -> bool:
    """Return whether the name of a function says that it is for train mode only."""
    return _TRAINING_NAME.search(function.name) is not None


def _is_step(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return isinstance(function, ast.Name) and function.id in _STEP_FUNCTIONS
    if function.attr in _STEP_METHODS:
        return True
    receiver = function.value
    name = identifier(receiver)
    if isinstance(receiver, ast.Subscript):
        name = ast.unparse(receiver)
    if function.attr in _OPTIMIZER_METHODS:
        return bool(_OPTIMIZER.search(name))
    return function.attr == "grad" and name == "autograd"
