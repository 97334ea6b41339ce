"""Statements that mean `eval()` and leave the layers in train mode: `net.eval` uncalled, `net.training = False`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.conditions import Truth
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.layers import ModelParts, is_layer, names_made, parts_of, parts_of_class, switches_itself
from detlint.linter.modes.names import Key
from detlint.linter.modes.own_draws import draws_in_training
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.runs import ModelRuns
from detlint.linter.modes.switches import Mode, switches_any
from detlint.linter.modes.train_mode import train_mode_inferences
from detlint.linter.programs.operator_calls import imports_torch
from detlint.linter.programs.trial_runs import is_in_unit_test

# What makes a model sets the flag that it starts with; what `forward` does is a matter of training as well.
_NO_PREDICTION = ("__init__", "forward")


@dataclass(frozen=True, slots=True)
class VainSwitch:
    """`net.eval`, or the `net.training` that a statement stores False in, and the model."""

    place: ast.Attribute
    model: str


def vain_switches(module: Module) -> Iterator[VainSwitch]:
    """Yield the statements of a file after which a model may still be in train mode, against what they mean.

    Tests set flags to see what comes of it; a call that is none is a mistake there too.
    """
    search = _Search(module)
    for word, question in (("eval", search.leaves_mode), ("training", search.leaves_layers)):
        for place in module.index.names_used.get(word, ()):
            if isinstance(place, ast.Attribute) and question(place):
                yield VainSwitch(place, ast.unparse(place.value))


class _Search:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.modes = module.project.once(Modes, module)
        self._runs = ModelRuns(self.modes)

    def leaves_mode(self, named: ast.Attribute) -> bool:
        """Is `net.eval` a statement that calls nothing, of what may be a model that drops or normalises something?

        Not where the model is in eval mode before, and not where its inference is a finding already.
        """
        if not _is_thrown_away(named, self.module) or not self._is_model(named.value):
            return False
        key = self.modes.key(named.value)
        if key is None:
            return True
        return not self._is_settled(key, named) and self._holds(key) is not Truth.NO and not self._is_found(named)

    def leaves_layers(self, flag: ast.Attribute) -> bool:
        """Does `net.training = False` leave layers in train mode, which have flags of their own?

        What other switches the function has may be for those; and what drops by the flag of the model is switched. Of a
        model that nobody can see, `train()` in the same file says that it is one whose mode matters.
        """
        function = self.module.index.function_at(flag)
        key = self.modes.key(flag.value) if _is_set_to_false(flag, self.module) else None
        if key is None or function is None or function.name in _NO_PREDICTION:
            return False
        if is_test_file(self.module) or is_in_unit_test(self.module, flag):
            return False
        if self._is_only_trained(key):
            return self._holds(key) is not Truth.NO
        return not switches_any(self.module, function) and self._holds_layers(key) and not self._is_settled(key, flag)

    def _is_only_trained(self, key: Key) -> bool:
        """`self.model.train()`, and nowhere `self.model.eval()`."""
        modes = {event.mode for event in self.modes.events_anywhere(key) if event.made is None}
        return Mode.TRAIN in modes and Mode.EVAL not in modes

    def _is_model(self, node: ast.expr) -> bool:
        """Is it known to be one, or called so in a file that uses torch?"""
        known = any(value.kind is Kind.MODULE for value in self.module.inference.values(node))
        return known or (imports_torch(self.module) and self._runs.is_module(node))

    def _is_settled(self, key: Key, place: ast.AST) -> bool:
        return self.modes.reasons(key, place)[1] == {Mode.EVAL}

    def _is_found(self, named: ast.Attribute) -> bool:
        function, model = self.module.index.function_at(named), ast.unparse(named.value)
        return any(
            found.model == model
            and found.call.lineno > named.lineno
            and self.module.index.function_at(found.call) is function
            for found in train_mode_inferences(self.module)
        )

    def _holds(self, key: Key) -> Truth:
        """Does the model hold layers that depend on the mode?"""
        made = list(Constructors(self.modes).of_key(key))
        if made:
            return Truth.NO if all(is_layer(*each) for each in made) else parts_of(made, made=True)
        owner = self.modes.class_behind(key)
        return parts_of_class(self.module.inference.class_info(owner)) if owner is not None else Truth.UNKNOWN

    def _holds_layers(self, key: Key) -> bool:
        """Has it parts for certain that depend on the mode, as modules of their own?"""
        owner = self.modes.class_behind(key)
        if owner is not None:
            return _holds_layers(self.module.inference.class_info(owner))
        made = list(Constructors(self.modes).of_key(key))
        found = (module.inference.class_named(name) for module, call in made for name in names_made(module, call))
        return any(info is not None and _holds_layers(info) for info in found)


def _holds_layers(info: ClassInfo) -> bool:
    """Do the instances of a class drop or normalise in parts, and draw nothing by their own flag?"""
    own = any(
        draws_in_training(ancestor.module, ancestor.node) is not Truth.NO
        for ancestor in info.module.inference.mro(info)
    )
    return not own and not switches_itself(info) and ModelParts(functional=False).of_class(info) is Truth.YES


def _is_thrown_away(node: ast.expr, module: Module) -> bool:
    """Is an expression a statement, alone or as a branch: `net.train() if training else net.eval`?"""
    parent = module.index.parents.get(node)
    while isinstance(parent, ast.IfExp) and parent.test is not node:
        node, parent = parent, module.index.parents.get(parent)
    return isinstance(parent, ast.Expr)


def _is_set_to_false(flag: ast.Attribute, module: Module) -> bool:
    statement = module.index.parents.get(flag)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is False
