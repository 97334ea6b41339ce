"""Classes of the project that hold a model and switch it around a `with`: `__enter__` and `__exit__` of one object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.modes.names import Key, ModelNames
from detlint.linter.modes.switches import Mode
from detlint.linter.source.names import FunctionNode

if TYPE_CHECKING:
    from detlint.linter.modes.effects import Event, ModeEffects

_AROUND = ("__enter__", "__exit__")


def mode_in_manager(effects: ModeEffects, manager: ast.Call, model: ast.expr) -> Mode | None:
    """Return the mode that `with Evaluating(net):` has its model in inside; None of what is no such class."""
    held = _held_by(effects, manager, model)
    return held.peer.effect(held.enters, held.key) if held is not None else None


def mode_after_manager(effects: ModeEffects, manager: ast.Call, model: ast.expr) -> Mode | None:
    """Return the mode that it leaves the model in: often the one that it had; None of what is no such class."""
    held = _held_by(effects, manager, model)
    if held is None:
        return None
    if held.puts_back():
        return Mode.SAME
    left = held.peer.effect(held.leaves, held.key) if held.leaves_for_sure() else Mode.UNKNOWN
    return held.peer.effect(held.enters, held.key) if left is Mode.SAME else left


class _Held:
    """The attribute under which an object keeps a model, and what the `with` calls of its class.

    `given` is the parameter that the model came in by.
    """

    def __init__(self, peer: ModeEffects, info: ClassInfo, attribute: str, given: str) -> None:
        self.peer, self.key, self.given = peer, Key(info.node, attribute), Key(info.methods["__init__"], given)
        self.enters, self.leaves = (info.methods[name] for name in _AROUND)

    def puts_back(self) -> bool:
        """`self.net.train(self.before)` at the end, after `self.before = self.net.training`, before any switch?"""
        return bool(self._events(self.leaves)) and all(map(self._is_as_before, self._events(self.leaves)))

    def leaves_for_sure(self) -> bool:
        """Does no condition decide whether `__exit__` switches?"""
        around = (self.peer.index.branches_around(event.node) for event in self._events(self.leaves))
        return not any(True for tests in around for _ in tests)

    def _is_as_before(self, event: Event) -> bool:
        tests = [test for test, _ in self.peer.index.branches_around(event.node)]
        names = [name for name in (event.asked, *tests) if name is not None]
        kept = [read for name in names for read in self.peer.reads_of_mode(name, self.key, self.given)]
        return bool(kept) and all(map(self._is_read_first, kept))

    def _is_read_first(self, read: ast.expr) -> bool:
        function = self.peer.index.function_at(read)
        if function is None or function.name not in ("__init__", "__enter__"):
            return False
        flow = self.peer.module.flow_at(read)
        return not any(flow.path(event.node, read) for event in self._events(function))

    def _events(self, function: FunctionNode) -> tuple[Event, ...]:
        events = self.peer.events(self.peer.index.scopes[function], self.key)
        return tuple(event for event in events if event.made is None)


def _held_by(effects: ModeEffects, manager: ast.Call, model: ast.expr) -> _Held | None:
    if not isinstance(effects.index.parents.get(manager), ast.withitem):
        return None
    for info in map(effects.module.inference.class_named, effects.module.inference.callees(manager)):
        if info is None or not {"__init__", *_AROUND} <= info.methods.keys():
            continue
        given = parameter_given(info.methods["__init__"], manager, model, skip_self=True)
        attribute = _attribute_for(info, given) if given is not None else ""
        if given is not None and attribute:
            return _Held(effects.peer(info.module), info, attribute, given)
    return None


def _attribute_for(info: ClassInfo, parameter: str) -> str:
    """Return the attribute that alone keeps what `__init__` is given as it is; nothing if there is none."""
    names = ModelNames(info.module)
    for attribute, writes in info.attributes.items():
        kept = [names.unwrapped(write.value) for write in writes if not write.index]
        if any(isinstance(value, ast.Name) and value.id == parameter for value in kept):
            return attribute if len(writes) == 1 else ""
    return ""
