"""Models of which nothing tells what they are: were they loaded or trained as they were made, in train mode?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.calls_elsewhere import calls_elsewhere
from detlint.linter.analysis.module import Module
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.effects import Event
from detlint.linter.modes.loaded_weights import LoadedWeights, is_pretrained
from detlint.linter.modes.names import Key, given_back, given_to, part_at
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.runs import is_left_open
from detlint.linter.modes.switches import Mode
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier

# What is made so comes in eval mode, or in the mode that it was saved in.
_LOADED = re.compile(r"from_pretrained|load|hub", re.I)

# A call that makes a model, and the place of the model in the tuple that it gives.
_Made = tuple[ast.Call, tuple[int, ...]]


class UnknownModels:
    """Answers for the models of one module; asks the same of other modules where functions lead there."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.modes = module.project.once(Modes, module)
        self._trains = file_trains(module)
        self._weights = LoadedWeights(self.modes)
        self._handing_on: dict[tuple[FunctionNode, tuple[int, ...]], bool] = {}

    def made(self, key: Key, call: ast.Call) -> list[Reason]:
        """`net = arch.base(8)`, `net.load_state_dict(state)`: what still has to be loaded is made in train mode.

        So is what a function of the project makes with `pretrained=True`. Names alone are no evidence that such a thing
        predicts: gradients are off, or the file trains, and this is no part of that.
        """
        return self._made(key, call) if self._trains or without_gradients(self.module, call) else []

    def _made(self, key: Key, call: ast.Call, steps: int = 2) -> list[Reason]:
        events = [
            event for event in self._events_before(call, key) if not self.modes.may_leave_in_train_mode(event, key)
        ]
        if not events and steps and isinstance(key.owner, FUNCTIONS):
            return self._handed_over(key, call, key.owner, steps)
        if not any(self._is_loaded_as_made(key, *made) for made in self._makers(events)):
            return []
        seen_here = key.owner is self.module.tree or key.owner in self.module.index.ancestors(call)
        return [Reason(self.module, events[0].node, call, True)] if seen_here else []

    def _handed_over(self, key: Key, node: ast.AST, function: FunctionNode, steps: int) -> list[Reason]:
        """`evaluate(net, loader)`: what every call of this file that leads to `node` hands over as it was made.

        Where this file calls it nowhere, every call of others.
        """
        reasons: list[Reason] = []
        own = [(self.module, call) for call in self.modes.callers_leading_to(node, function)]
        for place, call in own or calls_elsewhere(self.module, function):
            peer = place.project.once(UnknownModels, place)
            given = given_to(function, key.name, call)
            inner = peer.modes.key(given) if given is not None else None
            made = peer._made(inner, call, steps - 1) if inner is not None and inner != key else []
            if not made:
                return []
            reasons += made
        return reasons

    def _makers(self, events: list[Event], steps: int = 2) -> list[_Made]:
        """Return the calls of which one made a model, itself or under another name, if no more decided its mode."""
        found: list[_Made] = []
        for event in events:
            made = self.modes.unwrapped(event.made) if event.made is not None else None
            key = self.modes.key(made) if isinstance(made, ast.Name) and steps else None
            if key is not None:
                inner = self._makers(self.modes.events_anywhere(key), steps - 1)
            else:
                inner = [(made, event.index)] if isinstance(made, ast.Call) else []
            if not inner:
                return []
            found += inner
        return found

    def _is_loaded_as_made(self, key: Key, made: ast.Call, index: tuple[int, ...]) -> bool:
        """Are weights loaded into what a call makes, by this file or by that call, which hands it on in train mode?"""
        if self._loads_in_sight(made, index):
            return self.modes.mode_of(made, index) is not Mode.EVAL
        loaded = not _LOADED.search(identifier(made.func)) and (self._weights.filled(key) or is_pretrained(made))
        return loaded and not self._is_handed_back(made)

    def _loads_in_sight(self, made: ast.Call, index: tuple[int, ...]) -> bool:
        """`load_model(path)` of the project, which loads weights into what it makes and switches nothing."""
        found = list(functions_called(self.module.inference, made))
        return bool(found) and all(
            module.project.once(UnknownModels, module)._hands_on_as_made(function, index) for module, function in found
        )

    def _hands_on_as_made(self, function: FunctionNode, index: tuple[int, ...]) -> bool:
        """`net = instantiate(config)`, `net.load_state_dict(state)`, `return net, config`: nothing switches it."""
        asked = function, index
        if asked not in self._handing_on:
            self._handing_on[asked] = False  # what is made by itself is never made
            returns = self.module.flow(self.module.index.scopes[function]).returns()
            given = [statement.value for statement in returns]
            self._handing_on[asked] = bool(given) and all(
                self._comes_loaded(value, index) or self._is_loaded_here(part_at(value, index), function)
                for value in given
            )
        return self._handing_on[asked]

    def _comes_loaded(self, returned: ast.expr | None, index: tuple[int, ...]) -> bool:
        """`return load_model(path)`, `return build(pretrained=True)`: handed on at once, as it is given."""
        made = self.modes.unwrapped(returned) if returned is not None else None
        if not isinstance(made, ast.Call):
            return False
        asked = not index and is_pretrained(made) and not _LOADED.search(identifier(made.func))
        return self._loads_in_sight(made, index) or (asked and not self._is_handed_back(made))

    def _is_loaded_here(self, returned: ast.expr | None, function: FunctionNode) -> bool:
        given = self.modes.unwrapped(returned) if returned is not None else None
        key = self.modes.key(given) if isinstance(given, ast.Name) else None
        if returned is None or key is None or key.owner is not function:
            return False
        events, flow = tuple(self.modes.events_anywhere(key)), self.module.flow_at(function.body[0])
        making = [event for event in events if event.made is not None]
        made = self._makers(making)
        if not any(self.modes.reaches(flow, event.node, returned, events) for event in making):
            return False
        by_name = any(_LOADED.search(identifier(call.func)) for call, _ in made)
        return not by_name and any(self._is_loaded_as_made(key, *each) for each in made)

    def _events_before(self, call: ast.Call, key: Key) -> list[Event]:
        """Return what may have decided the mode of a variable when a call runs, in its own body what leads there."""
        events = self.modes.events_anywhere(key)
        scope = self.modes.body_of(call)
        if key.owner is not scope.node:
            return events
        flow, own = self.module.flow(scope), self.modes.events(scope, key)
        return [event for event in events if event not in own or self.modes.reaches(flow, event.node, call, own)]

    def _is_handed_back(self, made: ast.Call) -> bool:
        """`deepcopy(model)`, `prepared(model)`: a call that makes no model, but gives one in the mode that it had."""
        if self.modes.copied(made) is not None or self.modes.mode_of(made) is Mode.EVAL:
            return True
        called = list(functions_called(self.module.inference, made))
        if any(given_back(*found) or _hands_back_another(*found) for found in called):
            return True
        if called and all(is_left_open(function) for _, function in called):
            return False  # `cls.build_model(config)`, which each heir makes in its own way
        return next(Constructors(self.modes).of_expression(made, ()), None) is None


def _hands_back_another(module: Module, function: FunctionNode) -> bool:
    """`def build(): return prepared(resnet18())`: is what a function gives what it gets back in whatever mode?"""
    returned = [statement.value for statement in module.flow(module.index.scopes[function]).returns()]
    made = [value for value in returned if isinstance(value, ast.Call)]
    return any(given_back(*found) for call in made for found in functions_called(module.inference, call))
