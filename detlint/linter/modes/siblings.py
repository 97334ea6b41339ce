"""Functions that train and evaluate side by side: where one sets its own mode, the other has to set its own as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from detlint.linter.analysis.module import Module
from detlint.linter.modes.events import ModeEvents
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.switches import Mode
from detlint.linter.programs.evaluation import evaluates
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.training import chosen_by_caller, training_steps, trains
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import is_own, walk


def switches_of_siblings(modes: ModeEvents, key: Key, function: FunctionNode) -> Iterator[ast.AST]:
    """`train(model)` beside `test(model)`: yield the `train()` that is left on for a function that evaluates."""
    own = key.owner is function
    around = modes.index.parents.get(function) if _leaves_mode(modes, key, function) else None
    for other in ast.iter_child_nodes(around) if around is not None else ():
        if not isinstance(other, FUNCTIONS) or other is function or not trains(other):
            continue
        if own and key.name not in modes.index.scopes[other].bindings:
            continue
        theirs = Key(other, key.name) if own else key
        switch = kept_after_steps(modes, other, theirs)
        if switch is not None and not _evaluated_by_callers(modes, other, theirs):
            yield switch


def _evaluated_by_callers(modes: ModeEvents, function: FunctionNode, key: Key) -> bool:
    """`train_step(model)` and then `test_step(model)`: may all that train a parameter leave it in eval mode?"""
    if key.owner is not function:
        return False
    left = []
    for call in modes.callers(function):
        given, caller = given_to(function, key.name, call), modes.index.function_at(call)
        model = modes.key(given) if given is not None else None
        left.append(modes.effect(caller, model) if caller is not None and model is not None else Mode.SAME)
    return bool(left) and all(mode in (Mode.EVAL, Mode.UNKNOWN) for mode in left)


def switches_of_bases(
    modes: ModeEvents, key: Key, function: FunctionNode, bases: Sequence[tuple[ModeEvents, Key]]
) -> Iterator[tuple[Module, ast.AST]]:
    """Yield the `train()` that is left on by what base classes, of which none calls a method that evaluates, do.

    `bases` are the attribute as they know it.
    """
    if not _leaves_mode(modes, key, function) or is_called_by_bases(function, bases):
        return
    for base, name in bases:
        methods = base.module.classes[name.owner].methods.values() if isinstance(name.owner, ast.ClassDef) else ()
        for method in filter(trains, methods):
            switch = kept_after_steps(base, method, name)
            if switch is not None and not base.is_replaced_in(key.owner, switch):
                yield base.module, switch


def is_called_by_bases(function: FunctionNode, bases: Sequence[tuple[ModeEvents, Key]]) -> bool:
    """`self.net.eval()` and then `self._validate()`, of a base class: does one call a method, and see to its mode?"""
    return any(
        is_own(call.func) and base.index.class_at(call) is name.owner
        for base, name in bases
        for call in base.index.calls_by_name.get(function.name, ())
    )


def switches_of_last_call(modes: ModeEvents, key: Key, node: ast.AST, function: FunctionNode) -> Iterator[ast.AST]:
    """`predict` ends with `net.train()` and begins with no `eval()`: yield what all its calls but the first start with.

    Nobody switches back but after an evaluation.
    """
    if not without_gradients(modes.module, node) or trains(function):
        return
    scope = modes.index.scopes[function]
    flow, events = modes.module.flow(scope), modes.events(scope, key)
    if all(event.mode is Mode.TRAIN and event.made is None for event in events):
        last = (event.node for event in events if modes.reaches(flow, event.node, None, events))
        yield from (switch for switch in last if flow.path(node, switch))


def _leaves_mode(modes: ModeEvents, key: Key, function: FunctionNode) -> bool:
    """Does a function evaluate as a whole, and leave it to others in which mode?"""
    own = key.owner is function
    loops = [part for part in walk(function) if isinstance(part, (ast.For, ast.GeneratorExp, ast.ListComp))]
    whole = any(not own or without_gradients(modes.module, loop) for loop in loops)
    whole = whole or (not own and _predicts_without_gradients(modes, function))
    return whole and evaluates(function) and not modes.events(modes.index.scopes[function], key)


def _predicts_without_gradients(modes: ModeEvents, function: FunctionNode) -> bool:
    calls = (part for part in walk(function) if isinstance(part, ast.Call))
    return any(without_gradients(modes.module, call) for call in calls)


def kept_after_steps(modes: ModeEvents, function: FunctionNode, key: Key) -> ast.AST | None:
    """Return the `train()` under which a function makes its training steps, if it may end in that mode.

    One that is asked for, as in `update(x, measure=False)`, is no sign where others prepare for a prediction.
    """
    scope = modes.index.scopes[function]
    flow = modes.module.flow(scope)
    switches = [event for event in modes.events(scope, key) if event.made is None]
    places = [switch.node for switch in switches if switch.mode is not Mode.TRAIN]
    for switch in switches:
        if switch.mode is not Mode.TRAIN or not any(
            flow.path(switch.node, step, avoiding=places) and flow.path(step, None, avoiding=places)
            for step in training_steps(function)
        ):
            continue
        asked = chosen_by_caller(modes.module, switch.node)
        if not asked or not (key.owner is function or _leaves_train_outside(modes, function, key)):
            return switch.node
    return None


def _leaves_train_outside(modes: ModeEvents, function: FunctionNode, key: Key) -> bool:
    inside = modes.events(modes.index.scopes[function], key)
    return any(event.mode is Mode.EVAL and event not in inside for event in modes.events_anywhere(key))
