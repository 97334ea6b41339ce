"""Switches as a model is made, under conditions that leave nothing unswitched, or that put back the mode it had."""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.modes.names import Key, ModelNames
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.names import BindingKind, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk


class ConditionalSwitches(ModelNames):
    """Answers for the switches of one module."""

    def switched_to(self, call: ast.Call) -> Mode | None:
        """Return what `switched` does, and what `net.train(FLAG)` asks for where that is a constant by another name."""
        mode = switched(call)
        flag = arguments_of(call)[0] if mode is Mode.UNKNOWN else None
        asked = only_value(self.module, flag) if isinstance(flag, ast.Name) else None
        return (Mode.TRAIN if asked.value else Mode.EVAL) if isinstance(asked, ast.Constant) else mode

    def place_of_switch(self, call: ast.Call, key: Key) -> ast.AST:
        """`if net.training: net.eval()` and `if isinstance(net, nn.Module): net.eval()` leave nothing unswitched.

        Nor does `if eval_mode: net.eval()`, where that is a parameter and on unless the caller says otherwise.
        """
        statement = self.index.statement(call)
        around = self.index.parents.get(statement)
        if not isinstance(around, ast.If) or statement not in around.body or around.orelse:
            return call
        asked = self._is_mode_of(key, around.test) or any(self._asks_about(key, part) for part in walk(around.test))
        return around.test if asked or self._is_on_by_default(around.test) else call

    def is_switched_as_made(self, made: ast.expr) -> bool:
        """`net = load(path).train()`, at once or in a function of the project that gives it back so."""
        call = self.unwrapped(made)
        if not isinstance(call, ast.Call):
            return False
        given = [_given(*each) for each in functions_called(self.module.inference, call)]
        return switched(call) is Mode.TRAIN or (bool(given) and all(map(_is_put_in_train_mode, given)))

    def chosen_by_test(self, call: ast.Call, key: Key) -> ast.IfExp | None:
        """`net.train() if training else net.eval()`, which is `net.train(training)`."""
        around = self.index.parents.get(call)
        arms = [around.body, around.orelse] if isinstance(around, ast.IfExp) else []
        modes = [switched(arm) for arm in arms if isinstance(arm, ast.Call) and self.key(arm) == key]
        return around if isinstance(around, ast.IfExp) and modes == [Mode.TRAIN, Mode.EVAL] else None

    def is_put_back(self, call: ast.Call, key: Key) -> bool:
        """`if was_training: net.train()`: the mode that it had."""
        around = self.index.parents.get(self.index.statement(call))
        return isinstance(around, ast.If) and self._is_mode_of(key, around.test)

    def _is_mode_of(self, key: Key, test: ast.expr) -> bool:
        """`was_training`, after `was_training = net.training`."""
        return bool(self.reads_of_mode(test, key))

    def reads_of_mode(self, name: ast.expr, *keys: Key) -> list[ast.expr]:
        """Return the values of a variable, `net.training`, if it keeps the mode of the model and nothing else.

        So of an attribute: `self.before = self.net.training`. The model may go by several names.
        """
        values = [binding.value for binding in self.module.definitions(name)] if isinstance(name, ast.Name) else []
        owner = self.index.class_at(name) if is_own(name) else None
        if owner is not None:
            values = [write.value for write in self.module.classes[owner].attributes.get(identifier(name), ())]
        reads = [value for value in values if isinstance(value, ast.Attribute) and value.attr == "training"]
        return list(reads) if len(reads) == len(values) and all(self.key(read.value) in keys for read in reads) else []

    def kept_mode(self, switch: ast.Call, key: Key) -> ast.expr | None:
        """`before = net.training`: return what is read there, if `net.train(before)` or `if before:` puts it back."""
        around = self.index.parents.get(self.index.statement(switch))
        names = [*arguments_of(switch), *([around.test] if isinstance(around, ast.If) else [])]
        reads = [read for name in names for read in self.reads_of_mode(name, key)]
        if any(map(is_own, names)):  # other methods may keep it there for themselves
            function = self.index.function_at(switch)
            reads = [read for read in reads if self.index.function_at(read) is function]
        return reads[0] if len(reads) == 1 else None

    def _asks_about(self, key: Key, part: ast.AST) -> bool:
        """Is part of a test the model itself or its mode, and not another attribute: `if self.early_stopping`?"""
        around = self.index.parents.get(part)
        if not isinstance(part, (ast.Name, ast.Attribute)) or self.key(part) != key:
            return False
        return not isinstance(around, ast.Attribute) or around.attr == "training"

    def _is_on_by_default(self, test: ast.expr) -> bool:
        bindings = self.module.definitions(test) if isinstance(test, ast.Name) else ()
        return bool(bindings) and all(
            binding.kind is BindingKind.PARAMETER
            and isinstance(binding.value, ast.Constant)
            and binding.value.value is True
            for binding in bindings
        )


def _given(module: Module, function: FunctionNode) -> list[ast.expr]:
    """Return what a function gives back, without what keeps its mode: `net.train()` of `return net.train().cuda()`."""
    names, returns = ModelNames(module), module.flow(module.index.scopes[function]).returns()
    return [names.unwrapped(statement.value) for statement in returns if statement.value is not None]


def _is_put_in_train_mode(given: list[ast.expr]) -> bool:
    return bool(given) and all(isinstance(value, ast.Call) and switched(value) is Mode.TRAIN for value in given)
