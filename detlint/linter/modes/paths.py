"""In which mode is a model here? Follows `train()` and `eval()` along paths and through calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from detlint.linter.analysis.calls_elsewhere import called_elsewhere, calls_elsewhere
from detlint.linter.analysis.module import Module
from detlint.linter.modes.effects import Event
from detlint.linter.modes.frames import Frame
from detlint.linter.modes.kept_modes import mode_as_kept
from detlint.linter.modes.left_as_made import left_as_made
from detlint.linter.modes.left_flags import is_left_in_train_mode
from detlint.linter.modes.lists import held_in, taken_in_turn
from detlint.linter.modes.made_modes import MadeModes
from detlint.linter.modes.names import Key, called_on, given_to
from detlint.linter.modes.settled_parts import stays_in_mode
from detlint.linter.modes.siblings import (
    is_called_by_bases,
    kept_after_steps,
    switches_of_bases,
    switches_of_last_call,
    switches_of_siblings,
)
from detlint.linter.modes.switches import Mode, switches_any
from detlint.linter.modes.taken_parts import taken_part
from detlint.linter.programs.evaluation import evaluates
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode, Scope
from detlint.linter.source.nodes import receiver_of, walk

# Base classes that, going by their names, manage the model of their subclasses.
_MANAGES = re.compile(
    r"train|model|module|exp|learn|task|runner|solver|estimat|base|strategy|algorithm|recommend", re.I
)
# How many places a trace looks at, before it gives up.
_MAX_PLACES = 40


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model is in train mode: the place, and whether it was just created so or switched.

    `goal` is the place that the mode reaches, in the same body as `node`: the inference itself, or the call that leads
    to it; None where the two are joined by nothing but the lack of any `eval()`. Where the mode is only `put_back`,
    it may have been that.
    """

    module: Module
    node: ast.AST
    goal: ast.AST | None
    created: bool
    put_back: bool = False


@dataclass(frozen=True, slots=True)
class _Trace:
    """What one question about a mode has met so far; `copied` where it is that of a copy."""

    reasons: dict[ast.AST, Reason] = field(default_factory=dict)
    modes: set[Mode] = field(default_factory=set)
    seen: set[tuple[ast.AST, Key]] = field(default_factory=set)
    copied: bool = False


class Modes(MadeModes):
    """Answers for the models of one module; asks the same of other modules where calls lead there."""

    def reasons(self, key: Key, node: ast.AST) -> tuple[tuple[Reason, ...], frozenset[Mode]]:
        """Return why the model may be in train mode when `node` is evaluated, and every mode it may be in there."""
        trace = _Trace()
        self._trace(key, node, trace)
        return tuple(trace.reasons.values()), frozenset(trace.modes)

    def modes_at(self, key: Key, node: ast.AST, *, copied: bool = False) -> frozenset[Mode]:
        """Return every mode that the model may be in when `node` is evaluated, or one that is `copied` there."""
        trace = _Trace(copied=copied)
        self._trace(key, node, trace)
        return frozenset(trace.modes)

    def _trace(self, key: Key, node: ast.AST, trace: _Trace) -> None:
        if (node, key) in trace.seen or len(trace.seen) > _MAX_PLACES:
            trace.modes.add(Mode.UNKNOWN)
            return
        trace.seen.add((node, key))
        scope = self.body_of(node)
        flow = self.module.flow(scope)
        events = self.events(scope, key)
        manager = self.managed(key, node, events)
        if manager is not None:
            mode = self.mode_within(manager, key)
            trace.modes.add(mode)
            if mode is Mode.TRAIN:
                trace.reasons.setdefault(manager, Reason(self.module, manager, node, False))
            return
        for event in events:
            if self.reaches(flow, event.node, node, events):
                trace.modes.add(event.mode)
                if event.mode is Mode.TRAIN or self.may_leave_in_train_mode(event, key):
                    trace.reasons.setdefault(event.node, Reason(self.module, event.node, node, self._is_fresh(event)))
                elif event.asked is not None and is_left_in_train_mode(self, event.node, event.asked, node):
                    trace.reasons.setdefault(event.node, Reason(self.module, event.node, node, False))
                elif event.kept is not None:
                    self._trace_kept(key, event, node, trace)
                elif isinstance(event.made, ast.IfExp):
                    self._trace_choice(event.made, event.node, node, trace)
        barriers = [event.node for event in events] + self._handlers(scope, node)
        if self.may_come_in(key, scope) and flow.path(None, node, avoiding=barriers):
            self._trace_entry(key, node, scope, trace)

    def _is_fresh(self, event: Event) -> bool:
        """Is a model in train mode for no more than that it was made, and nobody asked for that mode?"""
        return event.made is not None and not self.is_switched_as_made(event.made)

    def _trace_kept(self, key: Key, event: Event, node: ast.AST, trace: _Trace) -> None:
        """`net.train(before)` ends an evaluation: the mode is what it was, and whoever keeps one expects either."""
        before = replace(trace, reasons={}, modes=set())
        self._trace(key, event.kept or node, before)
        evaluated = any(other.mode is Mode.EVAL for other in self.events(self.body_of(event.node), key))
        if before.reasons or (evaluated and before.modes != {Mode.EVAL}):
            trace.reasons.setdefault(event.node, Reason(self.module, event.node, node, False, put_back=True))

    def _trace_choice(self, choice: ast.IfExp, bound: ast.AST, node: ast.AST, trace: _Trace) -> None:
        """`chosen = averaged if use_ema else net`: one that is in train mode on every path is so under the name too."""
        for key in map(self.key, (choice.body, choice.orelse)):
            chosen = replace(trace, seen=set(trace.seen), reasons={}, modes=set())  # in a loop it may be itself
            if key is not None:
                self._trace(key, bound, chosen)
            for each in chosen.reasons.values() if chosen.modes <= {Mode.TRAIN, Mode.SAME} else ():
                trace.reasons[each.node] = replace(each, goal=node) if each.goal is bound else each

    def may_leave_in_train_mode(self, event: Event, key: Key) -> bool:
        """`self.fit(loader, val_loader)`, which trains, and only ends in eval mode where it evaluates as well."""
        call = event.node if event.mode is Mode.UNKNOWN and isinstance(event.node, ast.Call) else None
        return call is not None and any(
            {each.mode for each in last} == {Mode.TRAIN, Mode.EVAL}
            and kept_after_steps(self.peer(module), function, inner) is not None
            for module, function, inner, last in self.endings(call, key)
        )

    def _trace_entry(self, key: Key, node: ast.AST, scope: Scope, trace: _Trace) -> None:
        """The mode at the beginning of a function is what the callers in this file that lead to `node` have it in."""
        function = scope.node
        traced = False
        if isinstance(function, FUNCTIONS) and function.name == "__init__":
            if key.owner is function:
                self._trace_handed(key, function, trace)
                return
        elif isinstance(function, FUNCTIONS):
            for call in self.callers_leading_to(node, function):
                traced = True
                own = self._called_on_self(key, function, call)
                if own is not None:
                    self._trace(own, call, trace)
                elif key.owner is function:
                    self._trace_given(key, function, call, trace)
                else:
                    self._trace(key, call, trace)
            if traced and key.owner is not function and trace.modes == {Mode.SAME} and not trace.reasons:
                self._trace_bases(key, function, trace)
        if not traced and isinstance(function, FUNCTIONS):
            self._trace_uncalled(key, node, function, trace)
        elif not traced:
            trace.modes.add(Mode.SAME)
        if isinstance(function, FUNCTIONS) and Mode.EVAL not in trace.modes and not trace.reasons:
            for switch in switches_of_last_call(self, key, node, function):
                trace.reasons.setdefault(switch, Reason(self.module, switch, None, False))

    def _called_on_self(self, key: Key, method: FunctionNode, call: ast.Call) -> Key | None:
        """`self.evaluate(rows)` of a model: the mode is that of the caller, unless the method sets those of parts."""
        receiver = called_on(method, key.name, call) if key.owner is method else None
        return self.key(receiver) if receiver is not None and not switches_any(self.module, method) else None

    def callers_leading_to(self, node: ast.AST, function: FunctionNode) -> Iterator[ast.Call]:
        """Yield the calls of a function in this file but for those whose arguments keep it from a place in it."""
        calls = ((call, Frame(function, call, None, self.module, self.module)) for call in self.callers(function))
        return (call for call, frame in calls if not self.is_ruled_out(node, frame))

    def _trace_given(self, key: Key, function: FunctionNode, call: ast.Call, trace: _Trace) -> None:
        """`evaluate(net, loader)`: the mode that a call of this module hands a parameter's model over in.

        Of several, `evaluate([net, averaged.net], loader)`, each in its own.
        """
        given = given_to(function, key.name, call)
        for model in self._each_given(given) if given is not None else ():
            inner = self.key(model) or self._whole_of(model)
            if inner is not None:
                self._trace(inner, call, trace)
            elif Mode.TRAIN in (self.mode_of(model), mode_as_kept(self, model)):
                trace.modes.add(Mode.TRAIN)
                trace.reasons.setdefault(model, Reason(self.module, model, call, True))
            else:
                trace.modes.add(Mode.UNKNOWN)
        if given is None:
            trace.modes.add(Mode.UNKNOWN)

    def _whole_of(self, part: ast.expr) -> Key | None:
        """`net.encoder`, `net.backbone()`: return the model whose part that is, if the file switches only that."""
        taken = taken_part(self.module, part)
        whole = self.key(taken.whole) if taken is not None else None
        switched_here = (receiver_of(switch) for switch in self.leaving_train)
        return whole if all(model is not None and self.key(model) == whole for model in switched_here) else None

    def _each_given(self, given: ast.expr) -> list[ast.expr]:
        """Return the models of a list, those that a loop over one takes in turn, or the one that is given."""
        bindings = self.module.definitions(given) if isinstance(given, ast.Name) else ()
        return held_in(given) or (taken_in_turn(bindings[0]) if len(bindings) == 1 else []) or [given]

    def _trace_handed(self, key: Key, function: FunctionNode, trace: _Trace) -> None:
        """`Predictor(net)`: the mode that an object gets its model in, if that is not switched under other names."""
        own = [(self.module, call) for call in self.callers(function)]
        sites = own or list(called_elsewhere(self.module, function))
        if not sites or any(event.made is None for event in self.events(self.index.scopes[function], key)):
            trace.modes.add(Mode.SAME)
            return
        for module, call in sites:
            peer = self.peer(module)
            given = given_to(function, key.name, call)
            inner = peer.key(given) if given is not None else None
            beside = (not own and peer.leaving_train) or (inner is not None and peer._is_switched_beside(inner, call))
            if beside and not trace.copied:
                trace.modes.add(Mode.UNKNOWN)
            else:
                peer._trace_given(key, function, call, trace)

    def _is_switched_beside(self, key: Key, call: ast.Call) -> bool:
        """Does anything but `call` take a model out of train mode after it is made, or does its maker get it too?"""
        handed = any(
            binding.kind is BindingKind.PARAMETER
            for binding in self.index.scopes[key.owner].bindings.get(key.name, ())
            if isinstance(key.owner, FUNCTIONS)
        )
        events = self.events_anywhere(key)
        others = (event for event in events if event.made is None and event.node is not call)
        return handed or any(event.mode is not Mode.TRAIN for event in others)

    def _trace_uncalled(self, key: Key, node: ast.AST, function: FunctionNode, trace: _Trace) -> None:
        """A function that others call: train mode is sure only where something sets it and nothing ever leaves it."""
        trace.modes.add(Mode.SAME)
        if key.owner is function:
            theirs: set[Mode] = set()
            for module, call in calls_elsewhere(self.module, function):
                if not self.is_ruled_out(node, Frame(function, call, None, self.module, module)):
                    self.peer(module)._trace_given(key, function, call, replace(trace, modes=theirs))
            trace.modes.update(theirs)
            if theirs != {Mode.EVAL}:
                self._trace_siblings(key, function, trace)
            return
        in_bases = self._leaving_train_in_bases(key)
        others = [(self, call) for call in self.leaving_train if (self, call) not in in_bases]
        if function.name == "__init__" or self.is_switched_at(key, others):
            return
        if self.is_switched_at(key, in_bases):
            self._trace_bases(key, function, trace)
            return
        found: list[Reason] = []
        revived: list[Reason] = []  # in an instance that a method of the class makes and returns
        settled = False
        for peer, inherited in self.as_inherited(key):
            for event in peer.events_anywhere(inherited):
                if peer.is_replaced_in(key.owner, event.node) or peer._is_for_itself(event, inherited, function):
                    continue
                if event.mode is Mode.TRAIN:
                    reason = Reason(peer.module, event.node, None, peer._is_fresh(event))
                    (revived if peer.is_of_made_one(event.node, key) else found).append(reason)
                elif event.made is not None and event.mode is Mode.EVAL:
                    settled = True
                elif event.mode is not Mode.UNKNOWN or event.made is None:
                    self._trace_siblings(key, function, trace)
                    left = left_as_made(self, key, function)
                    trace.reasons.update((made, Reason(self.module, made, None, True)) for made in left)
                    return
        if settled:
            self._trace_siblings(key, function, trace)
            found.clear()
        found += revived
        switches = [reason for reason in found if not reason.created]
        if not switches and (not found or self._has_foreign_base(key)):
            return
        for reason in switches[:1] or found:
            trace.reasons.setdefault(reason.node, reason)

    def _is_for_itself(self, event: Event, key: Key, function: FunctionNode) -> bool:
        """`eval()` in a method that predicts as well is for that one, where nothing trains in between."""
        other = self.index.function_at(event.node)
        if event.made is not None or event.mode is not Mode.EVAL or other is None or other is function:
            return False
        return (
            evaluates(other)
            and not file_trains(self.module)
            and any(isinstance(part, ast.Call) and self.key(part.func) == key for part in walk(other))
        )

    def _trace_siblings(self, key: Key, function: FunctionNode, trace: _Trace) -> None:
        """What others set their mode for, a function that evaluates beside them has to set its own for as well."""
        if is_called_by_bases(function, self._in_bases(key)):
            return
        for switch in switches_of_siblings(self, key, function):
            trace.reasons.setdefault(switch, Reason(self.module, switch, None, False))

    def _trace_bases(self, key: Key, function: FunctionNode, trace: _Trace) -> None:
        """What base classes train, and leave in train mode at times, their heirs have to set the mode of."""
        for module, switch in switches_of_bases(self, key, function, self._in_bases(key)):
            trace.reasons.setdefault(switch, Reason(module, switch, None, False))

    def _in_bases(self, key: Key) -> list[tuple[Modes, Key]]:
        """Return the attribute as the base classes of the project know it."""
        return [(peer, inherited) for peer, inherited in self.as_inherited(key) if inherited != key]

    def as_inherited(self, key: Key) -> Iterator[tuple[Modes, Key]]:
        """Yield the variable, and the attribute as the base classes of the project know it."""
        yield self, key
        if isinstance(key.owner, ast.ClassDef):
            for base in self.module.inference.mro(self.module.classes[key.owner])[1:]:
                yield self.peer(base.module), Key(base.node, key.name)

    def _has_foreign_base(self, key: Key) -> bool:
        """A base class outside the project that trains may do anything with its subclass's model."""
        if not isinstance(key.owner, ast.ClassDef) or stays_in_mode(self.module, key.owner, key.name):
            return False
        inference = self.module.inference
        bases = inference.external_bases(inference.class_info(key.owner))
        return (len(key.owner.bases) > 0 and not bases) or any(
            _MANAGES.search(base.rpartition(".")[2]) for base in bases
        )

    def _leaving_train_in_bases(self, key: Key) -> list[tuple[Modes, ast.Call]]:
        """Return what takes some model out of train mode in methods that the class of one inherits."""
        return [
            (peer, call)
            for peer, inherited in self._in_bases(key)
            for call in peer.leaving_train
            if inherited.owner in peer.index.ancestors(call) and not peer.is_replaced_in(key.owner, call)
        ]

    def peer(self, module: Module) -> Modes:
        """Return the answers for another module of the project."""
        return module.project.once(Modes, module)
