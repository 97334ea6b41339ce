"""Which model does a call run? Its own, one that it hands to a helper, or one that a method of the object holds."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from detlint.layers import load_layers
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.calls_elsewhere import heirs_with
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind, load_types
from detlint.linter.modes.call_effects import PARTS
from detlint.linter.modes.layers import decorated_to_switch, names_made
from detlint.linter.modes.loaded_weights import LoadedWeights
from detlint.linter.modes.names import given_to
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.switches import switched, switches_any
from detlint.linter.programs.evaluation import is_inference, names_inference
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.predictions import leaves_graph
from detlint.linter.programs.step_flags import evaluates_on_request
from detlint.linter.programs.training import trains
from detlint.linter.programs.trial_runs import is_unused
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of, decorating, identifier, is_own, receiver_of, walk

# Methods by which models predict, other than by being called.
PREDICTS = re.compile(
    r"forward|__call__$|(predict|generate|sample|encode|decode|infer|transcribe|translate|embed|reconstruct|"
    r"classify|recogni[sz]e|segment|synthesi[sz]e|denoise|forecast|summari[sz]e|caption)(_|$)|inference"
)
# `valid_length` gives what length is allowed.
_ALLOWED = re.compile(r"(^|_)valid_")
MODEL = re.compile(r"model|net|module|encoder|decoder|generator|discriminator|backbone|policy|self", re.I)
# How a variable comes by a model.
_HOLDING = (BindingKind.ASSIGN, BindingKind.PARAMETER, BindingKind.ITERATION)
_BUILTINS = frozenset(dir(builtins))
# These write down what a model does in the mode that it is in.
_RECORDING = frozenset({"torch.jit.trace", "torch.jit.trace_module", "torch.export.export"})
# So does this one, unless it is asked for its older way, which switches the model by itself.
_EXPORTER = "torch.onnx.export"
# The last words of those, by which a file is asked first.
RECORDING_WORDS = frozenset(name.rpartition(".")[2] for name in (*_RECORDING, _EXPORTER))


class ModelRuns:
    """Answers for the calls of one module."""

    def __init__(self, modes: Modes) -> None:
        self.module = modes.module
        self.modes = modes

    def model_of(self, call: ast.Call) -> ast.expr | None:
        """Return the expression of what may be a model that `call` runs, directly or through a helper."""
        if self.records(call):
            return call.args[0] if call.args and isinstance(call.args[0], (ast.Name, ast.Attribute)) else None
        return self._model_behind_method(call) or self._model(call) or self._handed_model(call)

    def records(self, call: ast.Call) -> bool:
        """`torch.jit.trace(net, example)`: what it records of train mode drops for good."""
        named = identifier(call.func) in RECORDING_WORDS
        return named and (not _RECORDING.isdisjoint(self.module.inference.callees(call)) or self.exports(call))

    def exports(self, call: ast.Call) -> bool:
        """`torch.onnx.export(net, example, path)`, which is not told the mode, nor to go the older way."""
        if identifier(call.func) != "export":
            return False
        told = {keyword.arg: keyword.value for keyword in call.keywords}
        older = getattr(told.get("dynamo"), "value", None) is False or "training" in told
        return not older and _EXPORTER in self.module.inference.callees(call)

    def _model(self, call: ast.Call) -> ast.expr | None:
        """Return the expression of what may be a model that `call` runs."""
        function = call.func
        named_map = isinstance(function, ast.Name) and function.id == "map" and bool(call.args)
        if named_map and "builtins.map" in self.module.inference.callees(call):
            mapped = call.args[0]
            return mapped if isinstance(mapped, (ast.Name, ast.Attribute)) and self.is_module(mapped) else None
        if isinstance(function, ast.Name):
            bindings = self.module.definitions(function)
            plain = all(b.kind in _HOLDING for b in bindings)
            return function if bindings and plain else None
        if isinstance(function, ast.Subscript):
            return function if self.modes.key(function) is not None else None
        if not isinstance(function, ast.Attribute):
            return None
        named = names_inference(function.attr) and not _ALLOWED.search(function.attr)
        if PREDICTS.match(function.attr) or (named and self._is_model_method(call)):
            return function.value if self.is_module(function.value) and not self.switches_itself(call) else None
        if self._runs_parts_of_other(call, function):
            return function.value
        return function if self.modes.key(function) is not None and function.attr not in ("train", "eval") else None

    def _runs_parts_of_other(self, call: ast.Call, called: ast.Attribute) -> bool:
        """`net.map_logits(x)` under no_grad, a method of the project that calls layers of the model."""
        part_of_self = isinstance(called.value, ast.Name) and called.value.id == "self"
        if part_of_self or not without_gradients(self.module, call) or self.modes.key(called.value) is None:
            return False
        kinds = [value for value in self.module.inference.values(called.value) if value.kind is Kind.MODULE]
        if (kinds or MODEL.search(identifier(called.value))) and self._is_steady_part(called):
            return True
        for info in [self.module.inference.class_named(value.type) for value in kinds]:
            method = info.methods.get(called.attr) if info is not None else None
            if info is not None and method is not None and _runs_layers(info, method):
                return not self.switches_itself(call)
        return False

    def _is_steady_part(self, part: ast.Attribute) -> bool:
        """`net.encoder(x)`: a part of a model, which nothing in the file switches or hands on by itself."""
        kinds = {value.kind for value in self.module.inference.values(part)}
        if Kind.MODULE not in kinds and (kinds - {Kind.UNKNOWN} or not self._is_part_by_name(part)):
            return False
        text = ast.unparse(part)
        uses = [use for use in self.module.index.names_used.get(part.attr, ()) if isinstance(use, ast.Attribute)]
        return all(self._is_only_run(use, ast.unparse(use) == text) for use in uses if not is_own(use))

    def _is_part_by_name(self, part: ast.Attribute) -> bool:
        """`net.backbone(x)`, of a class that was never read."""
        known = (value for value in self.module.inference.values(part.value) if value.type)
        named = MODEL.search(part.attr) is not None and part.attr not in PARTS  # `net.modules()`
        return named and not any(self.module.project.definition(v.type) for v in known)

    def _is_only_run(self, part: ast.Attribute, same: bool) -> bool:
        """`net.encoder(x)`; what is stored there may be a compiled or copied part, in the mode of the whole."""
        parent = self.module.index.parents.get(part)
        if isinstance(part.ctx, ast.Store) or not same:
            return not (isinstance(parent, ast.Attribute) and parent.attr in ("eval", "train"))
        names = self.module.inference.callees(parent) if isinstance(parent, ast.Call) else ()
        return isinstance(parent, ast.Call) and (parent.func is part or not load_types().wrappers.isdisjoint(names))

    def runs_part(self, call: ast.Call, owner: ast.ClassDef) -> bool:
        """`self.encoder(x)`, or `self.step(x)` that calls such layers: does a method run a part of its own model?"""
        if not is_own(call.func):
            return False
        info = self.module.inference.class_info(owner)
        method = info.methods.get(identifier(call.func))
        if method is not None and is_left_open(method):
            heirs = [place.inference.class_info(heir) for place, heir in heirs_with(self.module, owner, method.name)]
            known = [(heir, heir.methods[method.name]) for heir in heirs]
            return bool(known) and all(
                _runs_layers(*each) and not switches_any(each[0].module, each[1]) for each in known
            )
        if method is not None:
            return _runs_layers(info, method) and not self.switches_itself(call)
        return any(value.kind is Kind.MODULE for value in self.module.inference.values(call.func))

    def _handed_model(self, call: ast.Call) -> ast.expr | None:
        """`total += squared_error(net, x, y)`: a model that a helper runs, which says nothing of inference itself."""
        called = identifier(call.func)
        if not called or called[0].isupper() or called in _BUILTINS:
            return None
        named = [node for node in arguments_of(call) if isinstance(node, (ast.Name, ast.Attribute))]
        named = [node for node in named if identifier(node) != "self"]
        helpers = list(functions_called(self.module.inference, call)) if named else []
        models = [node for node in named if helpers and self._may_be_model(node)]
        if not models or not (is_inference(self.module, call) or leaves_graph(self.module, call)):
            return None
        if self.switches_itself(call):
            return None
        for module, function in helpers:
            if trains(function) and not evaluates_on_request(self.module, call):
                continue
            for parameter, _ in parameters(function.args):
                passed = given_to(function, parameter.arg, call)
                if passed not in models:
                    continue
                runs = [run for run in _calls_of_parameter(module, function, parameter.arg) if not is_unused(*run)]
                told = any(is_inference(place, run) for place, run in runs)
                if runs and (not told or (module is not self.module and self._is_put_in_train_mode(passed, call))):
                    return passed
        return None

    def _may_be_model(self, node: ast.expr) -> bool:
        """`model`, by its name, and `teacher` after `teacher = nn.Sequential(…)`."""
        known = (value.kind is Kind.MODULE for value in self.module.inference.values(node))
        return MODEL.search(identifier(node)) is not None or any(known)

    def _is_put_in_train_mode(self, model: ast.expr, call: ast.Call) -> bool:
        """`net.train()`, and then `generate(net, prompt)`, which expects that its caller switches."""
        key = self.modes.key(model)
        reasons = self.modes.reasons(key, call)[0] if key is not None else ()
        return any(not reason.created and reason.goal is call for reason in reasons)

    def _model_behind_method(self, call: ast.Call) -> ast.expr | None:
        """`loss = self._forward_pass(x, y)`: the model that a helper of the class runs, in training as well."""
        name = receiver_of(call)
        owner = self.modes.self_class(name) if isinstance(name, ast.Name) else None
        method = self.module.inference.class_info(owner).methods.get(identifier(call.func)) if owner else None
        if owner is None or method is None or not is_inference(self.module, call):
            return None
        if trains(method) and not evaluates_on_request(self.module, call):
            return None
        if self.switches_itself(call):
            return None
        if is_left_open(method):
            return self._model_of_heirs(owner, method) if without_gradients(self.module, call) else None
        runs = [part for part in walk(method) if isinstance(part, ast.Call) and self._runs_own_model(part, owner)]
        told = any(is_inference(self.module, run) or leaves_graph(self.module, run) for run in runs)
        return runs[0].func if runs and not told else None

    def _model_of_heirs(self, owner: ast.ClassDef, method: FunctionNode) -> ast.expr | None:
        """`self._predict_batch(x)`, left to heirs that switch nothing: return the one model that the class switches."""
        switches = [part for part in walk(owner) if isinstance(part, ast.Call) and switched(part) is not None]
        models = [part.func.value for part in switches if isinstance(part.func, ast.Attribute)]
        if len({ast.unparse(model) for model in models}) != 1 or not is_own(models[0]):
            return None
        heirs = list(heirs_with(self.module, owner, method.name))
        theirs = [place.inference.class_info(heir).methods[method.name] for place, heir in heirs]
        name = identifier(models[0])
        run = any(identifier(part) == name and is_own(part) for each in theirs for part in walk(each))
        if any(switches_any(*heir) for heir in heirs) or not (run if heirs else PREDICTS.search(method.name)):
            return None
        return models[0]

    def _runs_own_model(self, call: ast.Call, owner: ast.ClassDef) -> bool:
        """`self.model(x)`, where that is no method, and `net(x)` for a `net` of `self.nets`."""
        called = call.func
        key = self.modes.key(called) if isinstance(called, (ast.Name, ast.Attribute)) else None
        info = self.module.inference.class_info(owner)
        if key is None or key.owner is not owner or key.name in info.methods:
            return False
        return MODEL.search(key.name) is not None or self._is_held_module(info, key.name)

    def _is_held_module(self, info: ClassInfo, name: str) -> bool:
        writes = self.module.inference.attribute_writes(info, name)
        values = (value for place, write in writes for value in place.module.inference.values(write.value))
        return any(value.kind is Kind.MODULE for value in values)

    def is_module(self, node: ast.expr) -> bool:
        """Trainers and estimators train and predict too: what is no call of the model itself needs more evidence."""
        values = self.module.inference.values(node)
        if any(value.kind is Kind.MODULE for value in values):
            return True
        made = [value for value in values if value.kind is Kind.INSTANCE]
        if made:
            read = any(self.module.project.definition(value.type) is not None for value in made)
            return not read and self._is_loaded(node)
        return bool(MODEL.search(identifier(node))) or self._is_loaded(node)

    def _is_loaded(self, node: ast.expr) -> bool:
        """`ae.load_state_dict(state)`: a model, whatever it is called."""
        key = self.modes.key(node)
        return key is not None and LoadedWeights(self.modes).from_state(key)

    def _is_model_method(self, call: ast.Call) -> bool:
        return any(self.module.project.definition(name) is not None for name in self.module.inference.callees(call))

    def switches_itself(self, call: ast.Call) -> bool:
        """Return whether what a call runs switches modes itself, or is decorated to."""
        found = map(self.module.project.definition, self.module.inference.callees(call))
        return any(_switches_modes(*definition) for definition in found if definition is not None)

    def switches_as_made(self, call: ast.Call, made: Iterable[tuple[Module, ast.Call]]) -> bool:
        """`net.predict(x)`: does that method switch modes in a class that the model may have been made of?"""
        called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        for module, maker in made if called else ():
            for info in filter(None, map(module.inference.class_named, names_made(module, maker))):
                found = next((each for each in module.inference.mro(info) if called in each.methods), None)
                if found is not None and _switches_modes(found.module, found.methods[called]):
                    return True
        return False


def _switches_modes(module: Module, node: FunctionNode | ast.ClassDef, steps: int = 2) -> bool:
    """Does a function switch modes, or another method of its object that it calls?"""
    if switches_any(module, node) or (isinstance(node, FUNCTIONS) and decorated_to_switch(module, node)):
        return True
    own = (part for part in walk(node) if isinstance(part, ast.Call) and is_own(part.func)) if steps else ()
    return any(_switches_modes(*found, steps - 1) for call in own for found in functions_called(module.inference, call))


def is_left_open(method: FunctionNode) -> bool:
    """`raise NotImplementedError`, `@abstractmethod`: does a method leave it to derived classes what it does?"""
    if any(identifier(decorating(decorator)) == "abstractmethod" for decorator in method.decorator_list):
        return True
    raised = method.body[-1].exc if isinstance(method.body[-1], ast.Raise) else None
    named = raised.func if isinstance(raised, ast.Call) else raised
    return getattr(named, "id", "") == "NotImplementedError"


def _runs_layers(info: ClassInfo, method: FunctionNode) -> bool:
    """Does a method of a model call layers of it, or all of it (`self(x)`), and make no training step?

    Or does one that it leads to: `log_prob`, which calls `self.unroll`.
    """
    own = _own_calls(method)
    if trains(method):
        return False
    if any(identifier(part) == "forward" or identifier(part) not in info.methods for part in own):
        return True
    reached = [method]
    for each in reached:  # grows on the way
        called = (info.methods.get(identifier(part)) for part in _own_calls(each))
        reached += dict.fromkeys(found for found in called if found is not None and found not in reached)
    return any(_is_held_layer(part, info) for each in reached for part in _called(each))


def _is_held_layer(called: ast.expr, info: ClassInfo) -> bool:
    """`self.encoder`, `self.heads[i]`: a layer of the project or of torch, or a model that another library makes."""
    holder = called.value if isinstance(called, ast.Subscript) else called
    values = info.module.inference.values(called) if is_own(holder) else ()
    return any(value.kind is Kind.MODULE or load_layers().models.get(value.type) is not None for value in values)


def _own_calls(method: FunctionNode) -> list[ast.expr]:
    """Return what a method calls of its object, or by the name of that."""
    return [part for part in _called(method) if is_own(part) or getattr(part, "id", "") == "self"]


def _called(method: FunctionNode) -> list[ast.expr]:
    return [part.func for part in walk(method) if isinstance(part, ast.Call)]


def _calls_of_parameter(
    module: Module, function: FunctionNode, name: str, steps: int = 3
) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls `net(x)` and `net.forward(x)` of what a function is given as `net`, or what it hands that to."""
    calls = [part for part in walk(function) if isinstance(part, ast.Call)]
    for call in calls:
        if module.index.function_at(call) is not function:
            continue
        if ast.unparse(call.func) in (name, f"{name}.forward"):
            yield module, call
        elif steps > 0 and any(getattr(argument, "id", "") == name for argument in arguments_of(call)):
            yield from _handed_on(module, call, name, steps - 1)


def _handed_on(module: Module, call: ast.Call, name: str, steps: int) -> Iterator[tuple[Module, ast.Call]]:
    for place, function in functions_called(module.inference, call):
        if switches_any(place, function):
            continue
        for parameter, _ in parameters(function.args):
            if getattr(given_to(function, parameter.arg, call), "id", "") == name:
                yield from _calls_of_parameter(place, function, parameter.arg, steps)
