"""Training in eval mode: an evaluation inside the loop that trains leaves the mode on, and nobody switches back."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from detlint.conditions import Truth
from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.effects import Event
from detlint.linter.modes.layers import decorated_to_switch, parts_of, parts_of_class
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.runs import is_left_open
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.modes.training_runs import TrainingRun, TrainingRuns
from detlint.linter.programs.evaluation import identifiers, names_inference
from detlint.linter.programs.gradients_off import runs_without_gradients, without_gradients
from detlint.linter.source.names import FOR_LOOPS, FUNCTIONS, LOOPS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, walk

# What switches a mode says nothing of what it is for.
_SWITCHES = ("eval", "test")


@dataclass(frozen=True, slots=True)
class EvalModeTraining:
    """What leaves a model in eval mode, and the call that trains it after that.

    `switches` are the calls of `eval()` behind it, in other functions; `before` is why the model was in train mode.
    """

    leaving: ast.AST
    switches: tuple[tuple[Module, ast.AST], ...]
    run: ast.Call
    model: str
    before: Reason


def eval_mode_trainings(module: Module) -> tuple[EvalModeTraining, ...]:
    """Return the places of a file that leave eval mode on in a loop that trains, the first for each model and loop."""
    if not any(map(module.index.of_type, LOOPS)) or is_test_file(module):
        return ()
    search = _Search(module)
    found: dict[tuple[Key, ast.AST], EvalModeTraining] = {}
    for scope in search.runs.bodies:
        for run in search.runs.of_body(scope):
            for loop, result in search.examine(run):
                found.setdefault((run.key, loop), result)
    return tuple(found.values())


class _Search:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.modes = module.project.once(Modes, module)
        self.runs = module.project.once(TrainingRuns, module)
        self._calls_of_train = module.index.calls_by_name.get("train", ())

    def examine(self, run: TrainingRun) -> Iterator[tuple[ast.AST, EvalModeTraining]]:
        """Yield what leaves eval mode on for a call that trained in train mode before, and the loop around the two."""
        around = [parent for parent in self.module.index.ancestors(run.call) if isinstance(parent, LOOPS)]
        flow = self.module.flow_at(run.call)
        events = self.modes.events(flow.scope, run.key) if around else ()
        decisive = [event for event in events if event.mode is not Mode.EVAL or not _is_by_the_way(event.node)]
        candidates = [(event, events) for event in events]
        candidates += [(event, (event, *decisive)) for event in reversed(events)]
        for event, between in candidates:
            loop = next((loop for loop in around if loop in self.module.index.ancestors(event.node)), None)
            if loop is None or not self._leaves_eval_mode(event, run.key):
                continue
            if is_for_one_turn(self.module, event.node, loop) or not is_for_prediction(self.module, event.node):
                continue
            if not self._leads_to(event, run, between, flow):
                continue
            before = self._in_train_mode(run)
            if before and self._may_depend(run.key):
                yield loop, self._result(event, run, before)

    def _leads_to(self, event: Event, run: TrainingRun, between: Sequence[Event], flow: Flow) -> bool:
        """Is a mode still on when the model runs and when that is learned from: one is not enough.

        One under `if not training:` may come before a run for both, and never before a step under `if training:`.
        """
        events = tuple(between)
        return self.modes.reaches(flow, event.node, run.call, events) and any(
            self.modes.reaches(flow, event.node, step, events) for step in run.steps
        )

    def _leaves_eval_mode(self, event: Event, key: Key) -> bool:
        """Is a model in eval mode after an event, at least where the function that is called forgot to switch back?"""
        if event.mode is Mode.UNKNOWN and isinstance(event.node, ast.Call):
            return self.modes.switches_back_at_times(event.node, key)
        return event.mode is Mode.EVAL

    def _result(self, event: Event, run: TrainingRun, before: Reason) -> EvalModeTraining:
        shown = f"self.{run.key.name}" if isinstance(run.key.owner, ast.ClassDef) else run.key.name
        switches = self.modes.left_by(event.node, run.key) if isinstance(event.node, ast.Call) else ()
        return EvalModeTraining(event.node, tuple(switches), run.call, shown, before)

    def _in_train_mode(self, run: TrainingRun) -> Reason | None:
        """Return why a model is in train mode the first time: put there, or just made.

        Where a file calls `train()`, that may be meant for the model that was made, under the name of a part of it; not
        so where it stands in the function that trains, and is no switch back.
        """
        reasons, modes = self._before_evaluations(run.key, run.call)
        put = next((reason for reason in reasons if not reason.created), None)
        if put is not None or any(self._may_mean(call, run) for call in self._calls_of_train):
            return put
        fresh = [
            Reason(peer.module, event.node, None, True)
            for peer, key in (self.modes.as_inherited(run.key) if modes & {Mode.SAME, Mode.UNKNOWN} else ())
            for event in peer.events_anywhere(key)
            if isinstance(event.made, ast.Call) and event.mode in (Mode.TRAIN, Mode.UNKNOWN)
        ]
        given = self._given(run.key) if Mode.SAME in modes else None
        return next(iter((*reasons, *fresh)), given)

    def _before_evaluations(self, key: Key, node: ast.AST) -> tuple[tuple[Reason, ...], frozenset[Mode]]:
        """Return why a model may be in train mode at a place, and in which modes, but for evaluations before a loop.

        `evaluate(net)`, for comparison, and then `for epoch in epochs:` leave the training in eval mode as well.
        """
        reasons, modes = self.modes.reasons(key, node)
        flow = self.module.flow_at(node)
        events = self.modes.events(flow.scope, key) if Mode.EVAL in modes and not reasons else ()
        places = (event.node for event in events if event.mode is Mode.EVAL and event.made is None)
        for place in places:
            first = is_for_prediction(self.module, place, until=node) and not flow.path(node, place)
            if first and self.modes.reaches(flow, place, node, events):
                return self._before_evaluations(key, place)
        return reasons, modes

    def _may_mean(self, switch: ast.Call, run: TrainingRun) -> bool:
        """May a `train()` somewhere in the file be meant for the model of a run, or a part of it, unnoticed so far?

        Not so one of the model under its own name, which the events of the run tell of, nor what switches a model that
        another function makes for itself.
        """
        if switched(switch) is not Mode.TRAIN or not isinstance(switch.func, ast.Attribute):
            return False
        key, body = self.modes.key(switch.func.value), self.modes.body_of(run.call)
        if key is None or isinstance(key.owner, ast.ClassDef):
            return switch not in {event.node for event in self.modes.events(body, run.key)}
        for other in self._behind(key) - {run.key}:
            made = self._constructors(other) if other.owner is not body.node else frozenset()
            if not made or not made.isdisjoint(self._constructors(run.key)):
                return True
        return False

    def _behind(self, key: Key) -> set[Key]:
        """Return the variables that the calls of this file hand over as a parameter, or the variable itself."""
        function = key.owner
        calls = self.modes.callers(function) if isinstance(function, FUNCTIONS) else ()
        given = [given_to(function, key.name, call) for call in calls if isinstance(function, FUNCTIONS)]
        keys = {self.modes.key(value) if value is not None else None for value in given}
        return {each for each in keys if each is not None} if keys and None not in keys else {key}

    def _constructors(self, key: Key) -> frozenset[ast.Call]:
        return frozenset(call for _, call in Constructors(self.modes, near=True).of_key(key))

    def _given(self, key: Key) -> Reason | None:
        """A model that a function or an object gets: who hands over one in eval mode wants no switch to it."""
        function, name = key.owner, key.name
        if isinstance(function, ast.ClassDef):
            function, name = self._taken_over(function, name) or (function, name)
        scope = self.module.index.scopes.get(function) if isinstance(function, FUNCTIONS) else None
        bindings = scope.bindings.get(name, ()) if scope is not None else ()
        parameter = next((binding for binding in bindings if binding.kind is BindingKind.PARAMETER), None)
        return Reason(self.module, parameter.node, None, True) if parameter is not None else None

    def _taken_over(self, owner: ast.ClassDef, attribute: str) -> tuple[FunctionNode, str] | None:
        """`self.net = net` in `__init__`, and nowhere else: return that and the parameter.

        Not of a class that leaves methods to derived ones, which may switch the model as they need it.
        """
        info = self.module.classes[owner]
        writes = info.attributes.get(attribute, ())
        only = writes[0] if len(writes) == 1 else None
        method = only.method if only is not None else None
        if only is None or method is None or method.name != "__init__" or not isinstance(only.value, ast.Name):
            return None
        return (method, only.value.id) if not any(map(is_left_open, info.methods.values())) else None

    def _may_depend(self, key: Key) -> bool:
        """Does the mode make a difference to a model, or can that not be told?"""
        made = list(Constructors(self.modes).of_key(key))
        owner = self.modes.class_behind(key)
        if owner is not None and not made:
            return parts_of_class(self.module.inference.class_info(owner)) is not Truth.NO
        return not made or parts_of(made, made=False) is not Truth.NO


def is_for_one_turn(module: Module, node: ast.AST, loop: ast.AST) -> bool:
    """`if epoch == last:` holds in one turn of a loop, which may well be its end."""
    child = node
    for parent in module.index.ancestors(node):
        if parent is loop:
            return False
        holds = isinstance(parent, ast.If) and child not in parent.orelse
        if isinstance(parent, ast.If) and _asks_for_one(parent.test, set(_counters(loop)), holds=holds):
            return True
        child = parent
    return False


def is_for_prediction(module: Module, switch: ast.AST, until: ast.AST | None = None) -> bool:
    """Is eval mode there for a prediction, by what switches or by what follows in its block (as far as a place)?

    Else it may be there to train with frozen statistics, or one of several modes that somebody chooses.
    """
    called = switch if isinstance(switch, ast.Call) and switched(switch) is None else None
    for name in module.inference.callees(called) if called is not None else ():
        place, function = module.project.definition(name) or (module, None)
        if isinstance(function, FUNCTIONS) and decorated_to_switch(place, function):
            return False  # and back again
        if function is not None and _infers(place, function.body):
            return True
    if called is not None:
        return names_inference(identifier(called.func))
    statement = module.index.statement(switch)
    around = module.index.parents[statement]
    blocks = [getattr(around, field, ()) for field in ("body", "orelse", "finalbody")]
    after = (block[block.index(statement) + 1 :] for block in blocks if statement in block)
    first = (list(takewhile(lambda each: until is None or until not in walk(each), block)) for block in after)
    return any(_infers(module, statements) for statements in first)


def _is_by_the_way(switch: ast.AST) -> bool:
    """`save(model, path)`, which calls `eval()` too: where the model is in eval mode already, that changes nothing."""
    return isinstance(switch, ast.Call) and switched(switch) is None


def _infers(module: Module, statements: Sequence[ast.stmt]) -> bool:
    """Does a block name something after evaluation, `val_loss` or `validate`, or call anything without gradients?"""
    names = (name for statement in statements for name in identifiers(statement))
    if any(name not in _SWITCHES and names_inference(name) for name in names):
        return True
    calls = (part for statement in statements for part in walk(statement) if isinstance(part, ast.Call))
    return any(without_gradients(module, call) or runs_without_gradients(module, call) for call in calls)


def _counters(loop: ast.AST) -> Iterator[str]:
    """Yield what counts the turns of a loop: `epoch` of `for epoch in`, `step` of `step += 1`."""
    for part in walk(loop):
        if isinstance(part, ast.AugAssign) or (part is loop and isinstance(part, FOR_LOOPS)):
            targets = (target for target in walk(part.target) if isinstance(target, (ast.Name, ast.Attribute)))
            yield from map(ast.unparse, targets)


def _asks_for_one(test: ast.expr, counters: set[str], *, holds: bool) -> bool:
    """`epoch == epochs - 1`, and not `step % 100 == 0`; what does not hold in that turn, `step != steps or hurried`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
        return any(_asks_for_one(value, counters, holds=holds) for value in test.values)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq if holds else ast.NotEq):
        return False
    parts = list(walk(test))
    counts = any(isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) in counters for part in parts)
    return counts and not any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in parts)
