"""What a call does to the mode of a model: of one that it is given, or of the one whose method it calls."""

from __future__ import annotations

import ast
from abc import ABC

from detlint.linter.modes.effects import ModeEffects
from detlint.linter.modes.lists import gone_round, leaves_train_each
from detlint.linter.modes.manager_classes import mode_after_manager
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.switches import (
    Mode,
    may_switch,
    names_mode,
    names_switches,
    switched_by_library,
    switches_any,
)
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, walk

# Methods that give the parts of a model one by one.
PARTS = ("modules", "children", "named_modules", "named_children")


class CallEffects(ModeEffects, ABC):
    """Answers for the calls of one module, of which functions of the project tell, or the names of what they call."""

    def _effect(self, call: ast.Call, argument: ast.expr) -> Mode:
        """Return what a call does to the mode of a model it is given as `argument`."""
        names = self.module.inference.callees(call)
        for name in names:
            found = self.module.project.definition(name)
            if found is None:
                continue
            module, definition = found
            peer = self.peer(module)
            if isinstance(definition, ast.ClassDef):  # it holds the model, and may do so any time
                managed = mode_after_manager(self, call, argument) if switches_any(module, definition) else Mode.SAME
                return Mode.UNKNOWN if managed is None else managed
            for parameter in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs):
                given = given_to(definition, parameter.arg, call)
                if given is argument or (given is not None and argument in walk(given)):
                    return peer.effect(definition, Key(definition, parameter.arg), call)
            return Mode.UNKNOWN if switches_any(module, definition) else Mode.SAME
        known = switched_by_library(names)
        if known is not None:
            return known
        return Mode.UNKNOWN if may_switch(identifier(call.func), names) else Mode.SAME

    def _effect_of_method(self, method: ast.Attribute) -> Mode:
        """`model.freeze()`, where that is a method of the project's that calls `self.eval()`, or a known library's."""
        names = self.module.inference.resolve(method)
        for name in names:
            module, definition = self.module.project.definition(name) or (self.module, None)
            if isinstance(definition, FUNCTIONS) and names_switches(module):
                receiver = [*definition.args.posonlyargs, *definition.args.args][:1]
                own = Key(definition, receiver[0].arg) if receiver else None
                call = self.index.parents.get(method)
                made = call if isinstance(call, ast.Call) else None
                peer = self.peer(module)
                effect = peer.effect(definition, own, made) if own is not None else Mode.SAME
                if effect is not Mode.SAME or (own is not None and peer.events(peer.index.scopes[definition], own)):
                    return effect  # `load(path, evaluate=False)` leaves its switch out
                return Mode.UNKNOWN if switches_any(module, definition) else effect
        unknown = Mode.UNKNOWN if not names and names_mode(method.attr) else Mode.SAME
        return switched_by_library(names) or unknown

    def _switches_parts(self, call: ast.Call, method: str) -> bool:
        """Does a call of a method of the model lead to switches of its submodules, one by one?"""
        if method == "apply":
            return bool(call.args) and self._switches(call.args[0])
        return method in PARTS and leaves_train_each(gone_round(self.index, call), self.index)

    def _switches(self, function: ast.expr) -> bool:
        """Return whether a function given to `model.apply` switches submodules one by one."""
        if isinstance(function, ast.Lambda):
            return switches_any(self.module, function)
        for name in self.module.inference.resolve(function):
            found = self.module.project.definition(name)
            if found is not None and switches_any(*found):
                return True
        return False
