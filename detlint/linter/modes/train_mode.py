"""Inference through models in train mode: every such call of a file, with the reason."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property

from detlint.conditions import Truth
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.callbacks import left_by_caller
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.intent import Intent
from detlint.linter.modes.kept_elsewhere import provider_of
from detlint.linter.modes.layers import ModelParts, is_layer, parts_of, parts_of_class
from detlint.linter.modes.library_trainers import switched_by_trainer
from detlint.linter.modes.loaded_elsewhere import loaded_elsewhere
from detlint.linter.modes.loaded_weights import LoadedWeights, loads_models
from detlint.linter.modes.names import Key
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.promised_class import has_no_mode_by_class, is_registered_by_mixin
from detlint.linter.modes.runs import RECORDING_WORDS, ModelRuns
from detlint.linter.modes.settled_parts import stays_in_mode
from detlint.linter.modes.switched_parts import parts_in_eval_mode
from detlint.linter.modes.switches import Mode
from detlint.linter.modes.teachers import teachers
from detlint.linter.modes.unknown_models import UnknownModels
from detlint.linter.programs.evaluation import (
    computes_loss,
    evaluates,
    identifiers,
    is_in_all_phases,
    is_inference,
    names_evaluation,
    names_inference,
    names_measure,
)
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.predictions import leaves_graph
from detlint.linter.programs.step_flags import evaluates_on_request, has_step_flag
from detlint.linter.programs.training import file_trains, trains
from detlint.linter.programs.trial_runs import is_demo, is_in_unit_test, is_unused
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, walk

# Losses and metrics are modules too, but nothing they compute is a prediction.
_NO_MODEL = re.compile(r"criteri|loss|metric|(^|_)crit(_|$)|transform|augment", re.I)
# Bases that make no module of a class.
_PLAIN_BASES = ("abc.", "builtins.", "typing.", "collections.")
# What trains a model that it is given, and leaves its mode alone.
_FITS = "lightning.pytorch.Trainer.fit"
_LOADING = ("load_state_dict", "from_pretrained", "load_from_checkpoint")
_MARKS = ("no_grad", "inference_mode", "set_grad_enabled", "load_state_dict", "generate")


@dataclass(frozen=True, slots=True)
class TrainModeInference:
    """An inference call, why its model is in train mode there, and whether training stood between the two.

    `recorded`: the call writes down what the model does, as `torch.jit.trace` does; `exported`: so
    `torch.onnx.export` does since torch 2.9, and switched the model by itself before.
    """

    call: ast.Call
    model: str
    reason: Reason
    after_training: bool
    recorded: bool
    exported: bool = False


def train_mode_inferences(module: Module) -> tuple[TrainModeInference, ...]:
    """Return the inference calls of a file whose model is in train mode on some path, the first for each reason."""
    return module.project.once(_inferences, module)


def _inferences(module: Module) -> tuple[TrainModeInference, ...]:
    if is_test_file(module):
        return ()
    marked = _may_infer(module)
    search = _Search(module)
    found: dict[ast.AST, TrainModeInference] = {}
    for call in module.index.of_type(ast.Call) if marked or _may_judge(module) else ():
        if not marked and not search.hints_at_inference(call):
            continue
        result = search.examine(call)
        if result is not None:
            known = found.get(result.reason.node)
            if known is None or _place(result, module) < _place(known, module):
                found[result.reason.node] = result
    return tuple(sorted(found.values(), key=lambda result: (result.call.lineno, result.call.col_offset)))


def _place(found: TrainModeInference, module: Module) -> tuple[bool, bool, int]:
    """What says itself that it infers comes before what is told so by the weights of its model alone.

    Last comes what is no hazard in older releases.
    """
    return found.exported, not is_inference(module, found.call), found.call.lineno


def _may_infer(module: Module) -> bool:
    """Return whether a file holds anything at all that marks inference."""
    index = module.index
    if any(word in index.names_used for word in (*_MARKS, *RECORDING_WORDS)):
        return True
    names = [node.name for node in index.of_type(ast.FunctionDef)]
    names += [node.name for node in index.of_type(ast.AsyncFunctionDef)]
    loops = (name for loop in index.of_type(ast.For) for name in identifiers(loop.iter))
    if any(map(names_evaluation, (*names, *loops))) or any(map(names_measure, names)):
        return True
    return loads_models(module)


def _may_judge(module: Module) -> bool:
    """`output.detach()`, `output.data.numpy()`, `output[idx_val]`, `next(iter(test_loader))`: each call says more."""
    words = module.index.names_used
    cut = "detach" in words or ("data" in words and "numpy" in words)
    return cut or (file_trains(module) and (any(map(names_inference, words)) or has_step_flag(module)))


class _Search:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.modes = module.project.once(Modes, module)
        self._trains = file_trains(module)
        self._runs = ModelRuns(self.modes)
        self._intent = Intent(self.modes)
        self._weights = LoadedWeights(self.modes)
        self._unknown = module.project.once(UnknownModels, module)
        self._own: dict[Key, bool] = {}

    def hints_at_inference(self, call: ast.Call) -> bool:
        """Does a call of what may be a model say by itself that it infers?"""
        if self._runs.model_of(call) is None:
            return False
        return leaves_graph(self.module, call) or is_inference(self.module, call)

    def examine(self, call: ast.Call) -> TrainModeInference | None:
        model = self._runs.model_of(call)
        key = self.modes.key(model) if model is not None else None
        if model is None or key is None or provider_of(self.module, model) is not None:
            return self._examine_kept(call.func if model is None else model, call)
        if _NO_MODEL.search(key.name):
            return None
        behind = isinstance(key.owner, ast.ClassDef) and isinstance(model, ast.Name)
        shown = f"self.{key.name}" if behind else ast.unparse(model)
        if self._is_own(key):
            key = self._switched_around_part(key, call)
            shown = key.name if key is not None and self.modes.class_behind(key) else shown
        if key is None:
            return None
        exported = self._runs.exports(call)
        if is_unused(self.module, call) and not (exported or evaluates_on_request(self.module, call)):
            return None
        if self._is_switched_around(call, key) or is_in_unit_test(self.module, call):
            return None
        if self._intent.acts_to_learn(call):
            return None
        recorded = self._runs.records(call)
        if not (recorded or is_inference(self.module, call) or self._predicts_by_its_weights(key, call)):
            return None
        told, modes = self.modes.reasons(key, call)
        reasons = [reason for reason in told if self._intent.counts(reason, call, key)]
        reasons = reasons or (self._unknown.made(key, call) if modes != {Mode.EVAL} else [])
        if computes_loss(self.module, call):
            reasons = [reason for reason in reasons if self._is_switched_for(call, reason)]
        if recorded and not self._is_ready(key):
            reasons = [reason for reason in reasons if self._is_loaded_where_made(reason)]
        if not reasons:
            return None
        made = list(Constructors(self.modes).of_key(key))
        if self._runs.switches_as_made(call, made):
            return None
        reasons = [reason for reason in reasons if not (reason.created and self._makes_without_mode(reason))]
        as_made = all(reason.created for reason in reasons)
        made = (self._made_by(reasons) if as_made else []) or made
        switched = parts_in_eval_mode(self.modes, key, call) if as_made else ()
        holds = parts_of(made, made=as_made, switched=switched) if made else self._holds_by_class(key)
        if holds is Truth.NO or (holds is Truth.UNKNOWN and has_no_mode_by_class(self.module, model)):
            return None
        if holds is Truth.UNKNOWN:
            # Any model is made in train mode: that it matters is shown by a layer, or by who calls `train()`.
            reasons = [r for r in reasons if not (r.created or self._is_told_by_class(r.node, key))]
        if not reasons:
            return None
        if made and all(is_layer(module, call) for module, call in made):
            return None
        reason = min(reasons, key=lambda reason: reason.created)
        if reason.created and not recorded and not self._is_ready(key) and is_demo(self.module, call):
            return None
        for_all = not reason.created and is_in_all_phases(self.module, call)
        after_training = reason.created or reason.put_back or (not for_all and self._intent.trained_between(reason))
        if not (after_training or for_all or recorded) and (
            is_demo(self.module, call)
            or self._intent.is_deliberate(call, reason, holds)
            or self._intent.is_for_a_while(call, key, reason)
        ):
            return None
        return TrainModeInference(call, shown, reason, after_training, recorded, exported)

    def _examine_kept(self, model: ast.expr, call: ast.Call) -> TrainModeInference | None:
        """`state.net(x)`: a model that other code has put there; no variable of this file tells its mode."""
        if _NO_MODEL.search(identifier(model)) or not without_gradients(self.module, call):
            return None
        if is_unused(self.module, call) or is_in_unit_test(self.module, call) or self._intent.acts_to_learn(call):
            return None
        if not is_inference(self.module, call) or any(map(self._runs.switches_itself, self.modes.managers(call))):
            return None
        reasons = loaded_elsewhere(self.modes, model) or left_by_caller(self.modes, model)
        if not reasons:
            return None
        after_training = reasons[0].created or self._intent.trained_between(reasons[0])
        return TrainModeInference(call, ast.unparse(model), reasons[0], after_training, recorded=False)

    def _is_ready(self, key: Key) -> bool:
        """Is a model trained or loaded, so that it predicts something of made up input too?"""
        return self._trains or self._is_fitted(key) or self._weights.into(key)

    def _is_loaded_where_made(self, reason: Reason) -> bool:
        """`net = create(name, checkpoint)`, a function of the project that loads weights."""
        inference = reason.module.inference
        makers = (part for part in walk(reason.node) if isinstance(part, ast.Call))
        functions = (function for maker in makers for _, function in functions_called(inference, maker))
        parts = (part for function in functions for part in walk(function))
        return any(isinstance(part, ast.Call) and identifier(part.func) in _LOADING for part in parts)

    def _is_fitted(self, key: Key) -> bool:
        """`trainer.fit(net, loader)`, of a library."""
        calls = [call for call in self.module.index.calls_by_name.get("fit", ()) if call.args]
        given = (call for call in calls if _FITS in self.module.inference.callees(call))
        return any(self.modes.key(call.args[0]) == key for call in given)

    def _predicts_by_its_weights(self, key: Key, call: ast.Call) -> bool:
        """Is a model loaded where nothing trains, or as a teacher that training steps ask?"""
        if not self._trains:
            return self._weights.into(key) or self._weights.inside(key)
        asked = teachers(self.modes, key) if without_gradients(self.module, call) else ()
        return bool(asked) and all(map(self._weights.into, asked))

    def _switched_around_part(self, key: Key, call: ast.Call) -> Key | None:
        """`self.train()` in a method that predicts, and then `self.layers(x)`: the part or the whole that it is.

        So where another method trains the model, and calls this one then. Elsewhere a model's own parts follow the
        model: whoever holds that switches it. A method that trains as well predicts where it asks for no gradients.
        """
        function = self.module.index.function_at(call)
        owner = self.module.index.class_at(call)
        if function is None or owner is None:
            return None
        alone = function.body[0] if not trains(function) else call
        infers = evaluates(function) or without_gradients(self.module, alone)
        if not infers or not self._runs.runs_part(call, owner):
            return None
        receivers = [*function.args.posonlyargs, *function.args.args][:1]
        trainers = {self.module.index.function_at(call) for call in self.modes.callers(function)}
        switching = [function, *(each for each in trainers if each is not None and trains(each))]
        switched = {part for method in switching for part in walk(method)}
        for candidate in (key, *(Key(function, receiver.arg) for receiver in receivers)):
            reasons = self.modes.reasons(candidate, call)[0]
            if reasons and all(not reason.created and reason.node in switched for reason in reasons):
                return candidate
        return None

    def _makes_without_mode(self, reason: Reason) -> bool:
        """Was the model made so one that holds no layers that depend on the mode, whatever else its name stands for?"""
        made = _made_at(reason)
        return bool(made) and parts_of(made, made=True) is Truth.NO

    def _made_by(self, reasons: list[Reason]) -> list[tuple[Module, ast.Call]]:
        """Return what made the models that are in train mode, where one name stands for several; nothing if unclear."""
        made = [_made_at(reason) for reason in reasons]
        return [each for found in made for each in found] if all(made) else []

    def _holds_by_class(self, key: Key) -> Truth:
        """Does `self` hold layers that depend on the mode? Its class tells where it is one that can be run."""
        owner = self.modes.class_behind(key)
        info = self.module.inference.class_info(owner) if owner is not None else None
        return self._file_holds if info is None else parts_of_class(info)

    @cached_property
    def _file_holds(self) -> Truth:
        """A model of unknown origin in a file that defines models is most likely one that it does not make itself."""
        inference, index = self.module.inference, self.module.index
        classes = [
            inference.class_info(node)
            for node in index.of_type(ast.ClassDef)
            if inference.is_module_class(self.module.qualified(node)) and node.name not in index.calls_by_name
        ]
        steady = bool(classes) and all(ModelParts().of_class(info) is Truth.NO for info in classes)
        return Truth.NO if steady else Truth.UNKNOWN

    def _is_switched_for(self, call: ast.Call, reason: Reason) -> bool:
        """`train()` in the function that predicts, or the model made there, and no training step."""
        function = self.module.index.function_at(call)
        return function is not None and reason.node in walk(function) and not trains(function)

    def _is_own(self, key: Key) -> bool:
        if key not in self._own:
            self._own[key] = self._is_submodule(key) or self._is_local_submodule(key)
        return self._own[key]

    def _is_submodule(self, key: Key) -> bool:
        """A module's own submodules follow the module: whoever holds it switches it.

        Not so in what is called a model and is none, as far as can be seen, if it puts its part in train mode.
        """
        if not isinstance(key.owner, ast.ClassDef) or stays_in_mode(self.module, key.owner, key.name):
            return False
        info = self.module.inference.class_info(key.owner)
        method = key.name in info.methods and self.modes.made_at_first_use(key.owner, key.name) is None
        if method or self.module.inference.is_module_class(info.name):
            return True
        if is_registered_by_mixin(self.module, key.owner, key.name):
            return True
        if "forward" in info.methods:
            return self._is_model_class(info)
        events = self.modes.events_anywhere(key) if self._is_model_class(info) else None
        return events is not None and not any(event.made is None and event.mode is Mode.TRAIN for event in events)

    def _is_local_submodule(self, key: Key) -> bool:
        """`encoder = self.momentum_encoder()`: a variable for what a module's method takes from the module itself."""
        owner = self.module.index.class_at(key.owner) if isinstance(key.owner, FUNCTIONS) else None
        if owner is None or not self._is_model_class(self.module.inference.class_info(owner)):
            return False
        values = [binding.value for binding in self.module.index.scopes[key.owner].bindings.get(key.name, ())]
        return bool(values) and all(value is not None and self._is_part_of_self(value, owner) for value in values)

    def _is_part_of_self(self, value: ast.expr, owner: ast.ClassDef) -> bool:
        value = self.modes.unwrapped(value)
        if isinstance(value, ast.IfExp):
            return self._is_part_of_self(value.body, owner) and self._is_part_of_self(value.orelse, owner)
        part = value.func if isinstance(value, ast.Call) else value
        return (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and self.modes.self_class(part.value) is owner
        )

    def _is_model_class(self, info: ClassInfo) -> bool:
        inference = self.module.inference
        bases = inference.external_bases(info)
        if inference.is_module_class(info.name) or any(base.endswith(("Module", "Model")) for base in bases):
            return True
        read = all(base.startswith(_PLAIN_BASES) for base in bases) and all(
            ancestor.module.inference.resolve(base) for ancestor in inference.mro(info) for base in ancestor.node.bases
        )
        return not read and "forward" in info.methods

    def _is_told_by_class(self, switch: ast.AST, key: Key) -> bool:
        """`net.fit(x)`, which calls `self.train()` among others; `trainer.train()`, of a library for any model."""
        called = switch.func if isinstance(switch, ast.Call) else None
        if isinstance(switch, ast.Call) and switched_by_trainer(self.module, switch) is not None:
            return True
        return isinstance(called, ast.Attribute) and called.attr != "train" and self.modes.key(called.value) == key

    def _is_switched_around(self, call: ast.Call, key: Key) -> bool:
        """`with self.stochastic_mode():`, a function of the project that switches to a mode that cannot be told."""
        managers = [manager for manager in self.modes.managers(call) if self._runs.switches_itself(manager)]
        return any(self.modes.mode_within(manager, key) is Mode.UNKNOWN for manager in managers)


def _made_at(reason: Reason) -> list[tuple[Module, ast.Call]]:
    """Return the calls that may have made a model where it is `net = Net()`, each with its module."""
    node = reason.node
    plain = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Attribute))
    if not plain or not isinstance(node, ast.Assign):
        return []
    return list(Constructors(reason.module.project.once(Modes, reason.module)).of_expression(node.value, ()))
