"""What running a function of the project does to the mode of a model, at its end or inside a `with` of it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.module import Module
from detlint.linter.modes.conditional_switches import ConditionalSwitches
from detlint.linter.modes.folding import truth
from detlint.linter.modes.frames import Frame
from detlint.linter.modes.manager_classes import mode_in_manager
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.switches import Mode
from detlint.linter.source.names import FOR_LOOPS, FUNCTIONS, FunctionNode, Scope, parameters
from detlint.linter.source.nodes import arguments_of, receiver_of, walk

MAX_DEPTH = 6
_MANAGERS = frozenset({"contextlib.contextmanager", "contextlib.asynccontextmanager"})


@dataclass(frozen=True, slots=True)
class Event:
    """A place that decides a model's mode. `made` is the constructor where the model is created there.

    `asked` is what decides the mode where that is not written out: `flag` of `net.train(flag)`. `index` is the place of
    the model in the tuple that it is made in. `kept` is where the mode was read that is put back: `before` of
    `before = net.training`.
    """

    node: ast.AST
    mode: Mode
    made: ast.expr | None = None
    asked: ast.expr | None = None
    index: tuple[int, ...] = ()
    kept: ast.expr | None = None


class ModeEffects(ConditionalSwitches, ABC):
    """Answers for the functions of one module; asks the same of other modules where calls lead there."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._left: dict[tuple[FunctionNode, Key, ast.AST | None], tuple[Event, ...] | None] = {}
        self._depth = 0

    @abstractmethod
    def events(self, scope: Scope, key: Key) -> tuple[Event, ...]:
        """Return the places in a body that decide the mode of `key`, in source order."""

    @abstractmethod
    def peer(self, module: Module) -> ModeEffects:
        """Return the answers for another module of the project."""

    def effect(self, function: FunctionNode, key: Key, call: ast.Call | None = None) -> Mode:
        """Return the mode that running a function of this module leaves `key` in, when it is run by `call`."""
        return self._mode_at(None, function, key, call)

    def asked_by(self, function: FunctionNode, key: Key, call: ast.Call | None) -> ast.expr | None:
        """`set_mode(net, flag)`: return what a call passes for the flag that alone decides which mode it leaves."""
        last = self._events_before(None, function, key) or ()
        flag = last[0].asked if len(last) == 1 else None
        return given_to(function, flag.id, call) if isinstance(flag, ast.Name) and call is not None else None

    def asked_inside(self, call: ast.Call, model: ast.expr) -> ast.expr | None:
        """`set_mode(net, flag)`, a function of the project that is told the mode."""
        for module, function in functions_called(self.module.inference, call):
            given = [part.arg for part, _ in parameters(function.args) if given_to(function, part.arg, call) is model]
            if given:
                return self.peer(module).asked_by(function, Key(function, given[0]), call)
        return None

    def mode_within(self, manager: ast.Call, key: Key) -> Mode:
        """`with mode_of(net, training=False):` is the mode that a function or class of the project has it in inside.

        Unknown where that does not decide it.
        """
        for module, function in functions_called(self.module.inference, manager):
            if not _MANAGERS.intersection(module.inference.decorators(function)):
                continue
            peer = self.peer(module)
            places = [part for part in walk(function) if isinstance(part, ast.Yield)]
            for inner in self._names_within(manager, key, peer, function):
                mode = peer._mode_at(places[0], function, inner, manager) if len(places) == 1 else Mode.SAME
                if mode is not Mode.SAME:
                    return mode
        given = next((part for part in arguments_of(manager) if self.key(part) == key), None)
        inside = mode_in_manager(self, manager, given) if given is not None else None
        return Mode.UNKNOWN if inside in (None, Mode.SAME) else inside

    def endings(self, call: ast.Call, key: Key) -> Iterator[tuple[Module, FunctionNode, Key, tuple[Event, ...]]]:
        """Yield the functions of the project that a call runs, what the model is called there, and what decides last.

        That is what may have decided its mode when they are done.
        """
        for module, function in functions_called(self.module.inference, call):
            peer = self.peer(module)
            for inner in self._names_within(call, key, peer, function):
                yield module, function, inner, peer._events_before(None, function, inner) or ()

    def left_by(self, call: ast.Call, key: Key, steps: int = MAX_DEPTH) -> Iterator[tuple[Module, ast.AST]]:
        """Yield the switches to eval mode that may be in force when a call of a function of the project is done."""
        for module, _, inner, last in self.endings(call, key):
            for event in last:
                if event.mode in (Mode.EVAL, Mode.UNKNOWN):
                    further = event.node if steps and isinstance(event.node, ast.Call) else None
                    deeper = list(self.peer(module).left_by(further, inner, steps - 1)) if further is not None else []
                    yield from deeper or ([(module, event.node)] if event.mode is Mode.EVAL else [])

    def switches_back_at_times(self, call: ast.Call, key: Key, steps: int = MAX_DEPTH) -> bool:
        """Does a function of the project evaluate a model and put it back into train mode, but not on every path?

        It may do so in another function that it calls last.
        """
        for module, function, inner, last in self.endings(call, key):
            peer = self.peer(module)
            if {event.mode for event in last} == {Mode.EVAL, Mode.TRAIN} and peer._follow(last, function):
                return True
            unclear = (event.node for event in last if event.mode is Mode.UNKNOWN and steps)
            inside = (node for node in unclear if isinstance(node, ast.Call))
            if any(peer.switches_back_at_times(further, inner, steps - 1) for further in inside):
                return True
        return False

    def _follow(self, events: tuple[Event, ...], function: FunctionNode) -> bool:
        """Does train mode come after eval mode, not instead of it?"""
        flow = self.module.flow(self.index.scopes[function])
        switches = {mode: [event.node for event in events if event.mode is mode] for mode in (Mode.EVAL, Mode.TRAIN)}
        return all(
            any(self.reaches(flow, start, goal, ()) for goal in switches[Mode.TRAIN]) for start in switches[Mode.EVAL]
        )

    def is_in_vain(self, event: Event, key: Key, events: tuple[Event, ...]) -> bool:
        """Is a model only made there where it is missing, and there already on every path: `net.eval()` came before?"""
        others = [other.node for other in events if other is not event]
        return (
            event.mode is Mode.TRAIN
            and bool(others)
            and not any(is_unset(other.made) for other in events)
            and self._fills_in(event.node, key)
            and not self.module.flow_at(event.node).path(None, event.node, avoiding=others)
        )

    def _fills_in(self, node: ast.AST, key: Key, steps: int = 2) -> bool:
        """`if self.net is None: self.net = Net()`, or a call of a method that does no more than that?"""
        if any(self._asks_if_missing(test, holds, key) for test, holds in self.index.conditions_around(node)):
            return True
        if not isinstance(node, ast.Call) or not steps:
            return False
        inner = []
        for module, function in functions_called(self.module.inference, node):
            peer = self.peer(module)
            for name in self._names_within(node, key, peer, function):
                events = peer.events(peer.index.scopes[function], name)
                inner += [peer._fills_in(event.node, name, steps - 1) for event in events]
        return bool(inner) and all(inner)

    def _asks_if_missing(self, test: ast.expr, holds: bool, key: Key) -> bool:
        """`self.net is None`, `not self.net`, and what is left after `if self.net is not None: return`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return holds and self.key(test.operand) == key
        if not isinstance(test, ast.Compare) or not is_unset(test.comparators[0]) or self.key(test.left) != key:
            return False
        return isinstance(test.ops[0], ast.Is if holds else ast.IsNot)

    def managers(self, node: ast.AST) -> Iterator[ast.Call]:
        """Yield the calls of the `with` statements around a node in its function, the innermost first."""
        for parent in self.index.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                return
            items = parent.items if isinstance(parent, (ast.With, ast.AsyncWith)) else []
            yield from (item.context_expr for item in items if isinstance(item.context_expr, ast.Call))

    def managed(self, key: Key, node: ast.AST, events: tuple[Event, ...]) -> ast.Call | None:
        """Return the call of the `with` that decides the mode of what is inside, if nothing there does so itself."""
        for manager in self.managers(node):
            if self.mode_within(manager, key) is not Mode.UNKNOWN:
                around = self.index.statement(manager)
                inside = [event for event in events if event.node is not manager and self._holds(around, event.node)]
                return None if inside else manager
        return None

    def _names_within(self, call: ast.Call, key: Key, peer: ModeEffects, function: FunctionNode) -> Iterator[Key]:
        """Yield what a model is called inside a function: its parameter, or the attribute of the same object."""
        receiver = receiver_of(call)
        for parameter, _ in parameters(function.args):
            given = given_to(function, parameter.arg, call)
            if given is not None and self.key(given) == key:
                yield Key(function, parameter.arg)
        if receiver is not None and self.key(receiver) == key:
            yield from (Key(function, part.arg) for part in function.args.args[:1])
        owner = peer.index.parents.get(function)
        if (
            isinstance(receiver, ast.Name)
            and self.self_class(receiver) is key.owner
            and isinstance(owner, ast.ClassDef)
        ):
            yield Key(owner, key.name)
        elif receiver is None and peer is self and key.owner in self.index.ancestors(function):
            yield key

    def _mode_at(self, goal: ast.AST | None, function: FunctionNode, key: Key, call: ast.Call | None) -> Mode:
        """Return the mode of `key` at a place in a function, or (without a goal) where it ends."""
        events = self._events_before(goal, function, key)
        if events is None:
            return Mode.UNKNOWN
        frame = Frame(function, call, None, self.module) if call is not None else None
        if frame is not None:
            events = tuple(event for event in events if not self.is_ruled_out(event.node, frame))
        modes = {_mode_in(frame, event) for event in events}
        if len(modes) > 1:
            return Mode.UNKNOWN
        return next(iter(modes), Mode.SAME)

    def _events_before(self, goal: ast.AST | None, function: FunctionNode, key: Key) -> tuple[Event, ...] | None:
        """Return what may have decided the mode last when a goal is reached; None where the search goes too deep.

        Where a mode is put back, that is what came before it was read, or the event as one that changes nothing.
        """
        asked = (function, key, goal)
        if asked not in self._left:
            self._left[asked] = ()  # recursion changes nothing
            self._left[asked] = self._find_events_before(*asked)
        return self._left[asked]

    def _find_events_before(self, function: FunctionNode, key: Key, goal: ast.AST | None) -> tuple[Event, ...] | None:
        if self._depth >= MAX_DEPTH:
            return None
        scope = self.index.scopes[function]
        self._depth += 1
        try:
            events = self.events(scope, key)
        finally:
            self._depth -= 1
        flow = self.module.flow(scope)
        last = (event for event in events if self.reaches(flow, event.node, goal, events))
        return tuple(
            before
            for event in last
            if not _is_rebound(event, key, function)
            for before in self._put_back(event, function, key)
        )

    def _put_back(self, event: Event, function: FunctionNode, key: Key) -> tuple[Event, ...]:
        """Return an event, or what decided the mode that it puts back."""
        if event.kept is None:
            return (event,)
        return self._events_before(event.kept, function, key) or (replace(event, mode=Mode.SAME, asked=None),)

    def is_ruled_out(self, node: ast.AST, frame: Frame) -> bool:
        """Does a condition on a parameter keep this call of a function from a place: `if training: net.train()`?"""
        return any(truth(frame, test) is (not holds) for test, holds in self.index.conditions_around(node))

    def modes_in_call(self, frame: Frame, key: Key, goal: ast.AST) -> frozenset[Mode]:
        """Return the modes that the body of a function may have put `key` in when one call of it comes to a place.

        With `train=False`, nothing gets past `if not train: net.eval()` unswitched: the condition is the place then.
        """
        scope, events = self.index.scopes[frame.function], []
        for event in self.events(scope, key):
            tests = list(self.index.branches_around(event.node))
            sure = bool(tests) and all(truth(frame, test) is holds for test, holds in tests)
            if not self.is_ruled_out(event.node, frame):
                events.append(replace(event, node=tests[-1][0]) if sure else event)
        known, flow = tuple(events), self.module.flow(scope)
        return frozenset(_mode_in(frame, event) for event in known if self.reaches(flow, event.node, goal, known))

    def reaches(self, flow: Flow, start: ast.AST | None, goal: ast.AST | None, events: tuple[Event, ...]) -> bool:
        """Is a mode still in force at a place (or the end) that it had after another (or at the beginning)?"""
        others = [event.node for event in events if event.node is not start]
        passed = [loop.iter for loop in self._loops_of(others) if not self._holds(loop, start, goal)]
        return flow.path(start, goal, avoiding=[*others, *passed, *self._handlers(flow.scope, goal)])

    def _loops_of(self, events: list[ast.AST]) -> Iterator[ast.For | ast.AsyncFor]:
        """Yield the loops that have an event in each turn: training for epochs is not meant to run zero times."""
        for node in events:
            statement = self.index.statement(node)
            loop = self.index.parents.get(statement)
            if isinstance(loop, FOR_LOOPS) and statement in loop.body:
                yield loop

    def _holds(self, loop: ast.AST, *nodes: ast.AST | None) -> bool:
        return any(node is not None and (node is loop or loop in self.index.ancestors(node)) for node in nodes)

    def _handlers(self, scope: Scope, goal: ast.AST | None) -> list[ast.AST]:
        """Paths through `except` are exceptions: they count only where the goal stands in the handler itself."""
        around = set(self.index.ancestors(goal)) if goal is not None else set()
        handlers = self.index.of_type(ast.ExceptHandler)
        return [handler for handler in handlers if handler not in around and self.body_of(handler) is scope]


def _mode_in(frame: Frame | None, event: Event) -> Mode:
    """Return the mode that an event leads to where its function is called like this."""
    on = truth(frame, event.asked) if frame is not None and event.asked is not None else None
    return event.mode if on is None else Mode.TRAIN if on else Mode.EVAL


def _is_rebound(event: Event, key: Key, function: FunctionNode) -> bool:
    """A parameter that is assigned anew says nothing about the model that the caller passed."""
    return event.made is not None and key.owner is function


def is_unset(made: ast.expr | None) -> bool:
    """`_NET = None`."""
    return isinstance(made, ast.Constant) and made.value is None
