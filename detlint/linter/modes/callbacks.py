"""Functions that an object hands itself to, `hook(self)`, `listener.on_epoch(self)`, and that run models it keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.kept_elsewhere import speaking_of
from detlint.linter.modes.kept_modes import may_be_switched
from detlint.linter.modes.layers import parts_of
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.switches import Mode
from detlint.linter.programs.training import training_steps
from detlint.linter.source.names import FUNCTIONS, LOOPS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, is_own


def left_by_caller(modes: Modes, model: ast.expr) -> list[Reason]:
    """Return why `trainer.net` is in train mode wherever a trainer hands itself to the function around.

    Nothing where it may be in another one at one of these places, or is switched anywhere by that name; nor where it is
    handed over before a training step of the same turn, which may want what comes of it.
    """
    function, parameter = _given(modes, model)
    owner = _only_keeper(modes, model.attr) if function is not None and isinstance(model, ast.Attribute) else None
    if owner is None or function is None or may_be_switched(modes, identifier(model)):
        return []
    peer, key = modes.peer(owner.module), Key(owner.node, identifier(model))
    places = list(_handing_over(peer, owner, function, parameter))
    told = [peer.reasons(key, place) for place in places]
    if any(found != {Mode.TRAIN} for _, found in told) or any(_precedes_step(owner.module, each) for each in places):
        return []
    holds = parts_of(Constructors(peer).of_key(key), made=False) if places else Truth.NO
    return [reason for reasons, _ in told for reason in reasons] if holds is Truth.YES else []


def _given(modes: Modes, model: ast.expr) -> tuple[FunctionNode | None, str]:
    """Return the function whose parameter keeps the model of `trainer.net`, and the name of that."""
    keeper = model.value if isinstance(model, ast.Attribute) else None
    bindings = modes.module.definitions(keeper) if isinstance(keeper, ast.Name) else ()
    function = bindings[0].scope.node if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    return (function, bindings[0].name) if isinstance(function, FUNCTIONS) else (None, "")


def _only_keeper(modes: Modes, name: str) -> ClassInfo | None:
    """Return the class of the project that alone has an attribute of a name; None where anything else gets one too."""
    keepers: list[ClassInfo] = []
    for place in speaking_of(name, modes.module) or ():
        stores = [use for use in place.index.names_used.get(name, ()) if isinstance(use, ast.Attribute)]
        if any(isinstance(use.ctx, ast.Store) and not is_own(use) for use in stores):
            return None
        keepers += [
            info for node in place.index.of_type(ast.ClassDef) if name in (info := place.classes[node]).attributes
        ]
    only = keepers[0] if len(keepers) == 1 else None
    return None if only is None or only.module.inference.is_module_class(only.name) else only


def _handing_over(peer: Modes, owner: ClassInfo, function: FunctionNode, parameter: str) -> Iterator[ast.Call]:
    """Yield where methods of a class hand `self` to what may be a function, under that parameter."""
    index = owner.module.index
    for call in index.of_type(ast.Call):
        if index.class_at(call) is not owner.node:
            continue
        given = argument_of(function, parameter, call, skip_self=True)
        if isinstance(given, ast.Name) and given.id == "self":
            yield from _calling(peer, call, function)


def _calling(peer: Modes, call: ast.Call, function: FunctionNode) -> Iterator[ast.Call]:
    """`hook(self)` may call any `__call__`; `getattr(listener, event)(self)` what those who call its method name."""
    called = call.func
    if not isinstance(called, ast.Call):
        if identifier(called) == function.name or (isinstance(called, ast.Name) and function.name == "__call__"):
            yield call
        return
    around = peer.index.function_at(call)
    word = called.args[1] if identifier(called.func) == "getattr" and len(called.args) > 1 else None
    if isinstance(word, ast.Constant) and word.value == function.name:
        yield call
    for caller in peer.callers(around) if around is not None and isinstance(word, ast.Name) else ():
        event = given_to(around, word.id, caller) if around is not None and isinstance(word, ast.Name) else None
        if isinstance(event, ast.Constant) and event.value == function.name:
            yield caller


def _precedes_step(module: Module, place: ast.Call) -> bool:
    """Does the nearest loop around that makes training steps, or else the function, make one after this place?"""
    for around in module.index.ancestors(place):
        steps = training_steps(around) if isinstance(around, (*LOOPS, *FUNCTIONS)) else ()
        if steps or isinstance(around, FUNCTIONS):
            return any(step.lineno > place.lineno for step in steps)
    return False
