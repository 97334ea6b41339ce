"""Models that a method makes and loads, and leaves in the mode that they are made in, whatever other methods do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.modes.events import ModeEvents
from detlint.linter.modes.names import Key
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.programs.training import trains
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import receiver_of

_LOADS = "load_state_dict"


def left_as_made(modes: ModeEvents, key: Key, function: FunctionNode) -> Iterator[ast.AST]:
    """`self.net = Net()` and `self.net.load_state_dict(state)` in `load`: yield where it is made, in train mode.

    That is the mode in which `function` gets it after that. A method that switches it and does not train may be there
    to be called in between.
    """
    if any(_may_come_between(modes, event.node) for event in modes.events_anywhere(key)):
        return
    for call in modes.index.calls_by_name.get(_LOADS, ()):
        method, loaded = modes.index.function_at(call), receiver_of(call)
        if method is None or loaded is None or modes.key(loaded) != key or method is function:
            continue
        if method.name == "__init__" or trains(method):
            continue
        scope = modes.index.scopes[method]
        events = modes.events(scope, key)
        made = (event.node for event in events if event.mode is Mode.TRAIN and event.made is not None)
        yield from (node for node in made if modes.reaches(modes.module.flow(scope), node, None, events))


def _may_come_between(modes: ModeEvents, node: ast.AST) -> bool:
    around = modes.index.function_at(node)
    switches = isinstance(node, ast.Call) and switched(node) not in (None, Mode.TRAIN)
    return switches and (around is None or not trains(around))
