"""Models that are switched under another name: `trainer.model.eval()`, `net = getattr(self, name)`, in a base class."""

from __future__ import annotations

import ast
from abc import ABC
from collections.abc import Sequence
from functools import cached_property

from detlint.linter.modes.events import ModeEvents
from detlint.linter.modes.names import Key
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.nodes import receiver_of


class OtherNames(ModeEvents, ABC):
    """Answers for the attributes of the classes of one module."""

    def is_switched_at(self, key: Key, places: Sequence[tuple[OtherNames, ast.Call]]) -> bool:
        """Return whether one of the calls switches the model under another name: `trainer.model.eval()`."""
        if not isinstance(key.owner, ast.ClassDef):
            return False
        returns = any(event.mode is Mode.EVAL and event.made is None for event in self.events_anywhere(key))
        for peer, call in places:
            receiver = peer.unwrapped(call.func.value) if isinstance(call.func, ast.Attribute) else None
            if isinstance(receiver, ast.Attribute) and receiver.attr == key.name:
                other = peer.key(receiver)
                if other is None:
                    return True
                counts = returns or not peer._goes_with_making(call, other)
                if counts and other != key and peer._is_kin(other, key):
                    return True
            if isinstance(receiver, ast.Name) and peer._is_looked_up(receiver):
                return True
        return False

    def _goes_with_making(self, switch: ast.Call, key: Key) -> bool:
        """`self.net = build(config)` and `self.net.eval()`: the mode that a model is made in, before it is trained."""
        body = self.body_of(switch)
        made = [event.node for event in self.events(body, key) if event.made is not None]
        return any(self.module.flow(body).path(node, switch) for node in made)

    def _is_looked_up(self, name: ast.Name) -> bool:
        """`net = getattr(self, "net" + name)`."""
        values = (binding.value for binding in self.module.definitions(name))
        return any(isinstance(value, ast.Call) and getattr(value.func, "id", "") == "getattr" for value in values)

    def _is_kin(self, other: Key, key: Key) -> bool:
        """Does one of the classes that own two attributes inherit from the other?"""
        owners = [owner.owner for owner in (other, key) if isinstance(owner.owner, ast.ClassDef)]
        infos = [self.module.classes[owner] for owner in owners if owner in self.module.classes]
        return len(infos) < 2 or any(
            info.node in owners for each in infos for info in self.module.inference.mro(each)[1:]
        )

    @cached_property
    def leaving_train(self) -> tuple[ast.Call, ...]:
        """The calls of this module that take some model out of train mode, and do not put it back themselves."""
        calls = self.index.calls_by_name
        named = (*calls.get("eval", ()), *calls.get("train", ()))
        leaving = (call for call in named if switched(call) not in (None, Mode.TRAIN))
        return tuple(call for call in leaving if not self._is_put_in_train_mode_again(call))

    def _is_put_in_train_mode_again(self, leaving: ast.Call) -> bool:
        """`net.eval()`, and `net.train()` on every way out of the function."""
        function, model = self.index.function_at(leaving), _model_of(leaving)
        back = [
            call
            for call in self.index.calls_by_name.get("train", ())
            if switched(call) is Mode.TRAIN and self.index.function_at(call) is function and _model_of(call) == model
        ]
        return bool(back) and not self.module.flow_at(leaving).path(leaving, None, avoiding=back)


def _model_of(switch: ast.Call) -> str:
    receiver = receiver_of(switch)
    return ast.unparse(receiver) if receiver is not None else ""
