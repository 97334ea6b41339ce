"""Which calls train a model, in the mode that it is in there? Those that lead to a backward pass or a step."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.runs import MODEL
from detlint.linter.modes.switches import switched
from detlint.linter.programs.evaluation import is_inference, names_inference
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.predictions import may_be_differentiated
from detlint.linter.programs.step_calls import makes_steps
from detlint.linter.programs.step_flags import evaluates_on_request
from detlint.linter.programs.training import training_steps
from detlint.linter.source.names import FunctionNode, Scope
from detlint.linter.source.nodes import arguments_of, identifier, is_own, receiver_of, walk

_STEPS = ("backward", "manual_backward", "step")
# A function of such a name is worth a look: does it train?
_MAY_TRAIN = re.compile(r"train|fit|learn|optimi|step|epoch|batch|iteration|update_|_update", re.I)
_OPTIMIZER = re.compile(r"optim", re.I)
# Methods of a model that run nothing of it.
_KEEPING = re.compile(
    r"(train|eval|to|cuda|cpu|half|float|apply|no_sync|share_memory|zero_grad|requires_grad_)$|"
    r"(named_|load_|un)?(parameters|modules|children|buffers|state_dict|freeze)|(register|save|clip_grad)_"
)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A call that trains a model, itself or in a function that it calls, in the mode that the model comes in.

    `steps` are the backward passes and steps of the same body that it leads to; itself, where a function makes them.
    """

    call: ast.Call
    key: Key
    steps: tuple[ast.Call, ...]


class TrainingRuns:
    """Answers for the bodies of one module; asks the same of other modules where calls lead there."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.modes = module.project.once(Modes, module)
        self._known: dict[Scope, tuple[TrainingRun, ...]] = {}

    @cached_property
    def bodies(self) -> Collection[Scope]:
        """The bodies that may hold such calls, by the names of what they call."""
        calls = self.module.index.calls_by_name
        named = (call for name in calls if name in _STEPS or _MAY_TRAIN.search(name) for call in calls[name])
        return dict.fromkeys(map(self.modes.body_of, (*named, *self._handed_optimizers)))

    @cached_property
    def _handed_optimizers(self) -> frozenset[ast.AST]:
        """The calls that are handed an optimizer, `run_batch(net, x, optimizer)`, whatever they are called."""
        used = self.module.index.names_used
        names = (node for name in used if _OPTIMIZER.search(name) for node in used[name])
        around = (self.module.index.parents.get(node) for node in names)
        calls = (self.module.index.parents.get(each) if isinstance(each, ast.keyword) else each for each in around)
        return frozenset(call for call in calls if isinstance(call, ast.Call))

    def of_body(self, scope: Scope) -> tuple[TrainingRun, ...]:
        """Return the calls in a body that train, those that run a model themselves first."""
        if scope not in self._known:
            self._known[scope] = ()  # recursion trains nothing more
            calls = [part for part in walk(scope.node) if isinstance(part, ast.Call)]
            own = [call for call in calls if self.modes.body_of(call) is scope]
            found = [*self._direct(scope, own), *self._through_functions(own)]
            self._known[scope] = tuple(dict.fromkeys(found))
        return self._known[scope]

    def _direct(self, scope: Scope, calls: list[ast.Call]) -> Iterator[TrainingRun]:
        """`loss = criterion(net(x), y)`, and then `loss.backward()` in the same mode."""
        steps = [call for call in calls if self._is_step(call)]
        flow = self.module.flow(scope)
        for call in calls if steps else ():
            models = [] if call in steps else list(self._models_of(call))
            if not models or not self._may_train(call) or not may_be_differentiated(self.module, call):
                continue
            for key in models:
                events = self.modes.events(scope, key)
                switches = any(event.node is call for event in events)
                led_to = tuple(step for step in steps if self.modes.reaches(flow, call, step, events))
                if led_to and not switches:
                    yield TrainingRun(call, key, led_to)

    def _is_step(self, call: ast.Call) -> bool:
        """`loss.backward()`, or `self._backward(loss)`, a method of the object that does so."""
        if identifier(call.func) in _STEPS and call in training_steps(call):
            return True
        return is_own(call.func) and identifier(call.func).strip("_") in _STEPS and makes_steps(self.module, call)

    def _may_train(self, call: ast.Call) -> bool:
        evaluates = names_inference(identifier(call.func)) or without_gradients(self.module, call)
        return not evaluates and not is_inference(self.module, call)

    def _models_of(self, call: ast.Call) -> Iterator[Key]:
        """Yield the variables of what may be models that a call runs: `net(x)`, `net.loss(x)`, `loss_of(net, x)`."""
        given = arguments_of(call)
        nodes = [call.func, *given]
        if given and isinstance(call.func, ast.Attribute) and not _KEEPING.match(call.func.attr):
            nodes.append(call.func.value)
        for node in nodes:
            key = self.modes.key(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
            if key is not None and (MODEL.search(key.name) or key in self._switched):
                yield key
        if is_own(call.func):
            yield from self._models_behind(call)

    def _models_behind(self, call: ast.Call) -> Iterator[Key]:
        """`out = self._forward_pass(x)`, a method of the object that calls a model, or what this file switches."""
        for module, method in functions_called(self.module.inference, call):
            runs = [part.func for part in walk(method) if isinstance(part, ast.Call)] if module is self.module else []
            keys = (self.modes.key(run) for run in runs if isinstance(run, ast.Attribute) and is_own(run))
            yield from (key for key in keys if key and (MODEL.search(key.name) or key in self._switched))

    @cached_property
    def _switched(self) -> frozenset[Key | None]:
        """The variables that this file switches, whatever they are called."""
        calls = self.module.index.calls_by_name
        named = (*calls.get("eval", ()), *calls.get("train", ()))
        switches = [call.func.value for call in named if isinstance(call.func, ast.Attribute) and switched(call)]
        return frozenset(map(self.modes.key, switches))

    def _through_functions(self, calls: list[ast.Call]) -> Iterator[TrainingRun]:
        """`train_epoch(net, loader)`, `self.train_batch(x)`: functions of the project that leave the mode to others."""
        for call in calls:
            if not _MAY_TRAIN.search(identifier(call.func)) and call not in self._handed_optimizers:
                continue
            for module, function in functions_called(self.module.inference, call):
                if self._may_train(call):
                    yield from self._within(call, module, function)

    def _within(self, call: ast.Call, module: Module, function: FunctionNode) -> Iterator[TrainingRun]:
        peer = module.project.once(TrainingRuns, module)
        scope = module.index.scopes[function]
        flow = module.flow(scope)
        for run in () if evaluates_on_request(self.module, call) else peer.of_body(scope):
            key = self._outside(run.key, call, module, function)
            if key is None or not peer.modes.may_come_in(run.key, scope):
                continue
            if peer.modes.reaches(flow, None, run.call, peer.modes.events(scope, run.key)):
                yield TrainingRun(call, key, (call,))

    def _outside(self, key: Key, call: ast.Call, module: Module, function: FunctionNode) -> Key | None:
        """Return what the caller of a function calls the model that goes by `key` inside of it."""
        receiver = receiver_of(call)
        if key.owner is function:
            first = [part.arg for part in function.args.args[:1]]
            given = receiver if receiver is not None and [key.name] == first else given_to(function, key.name, call)
            return self.modes.key(given) if given is not None else None
        if isinstance(key.owner, ast.ClassDef) and receiver is not None:
            owner = self.modes.self_class(receiver) if isinstance(receiver, ast.Name) else None
            return Key(owner, key.name) if owner is not None else None
        return key if module is self.module and receiver is None else None
