"""In which mode is the model that an expression makes, or that a function gives?"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import load_types
from detlint.linter.modes.effects import MAX_DEPTH, is_unset
from detlint.linter.modes.folding import truth
from detlint.linter.modes.frames import Frame
from detlint.linter.modes.layer_names import from_torchvision_by_name
from detlint.linter.modes.layers import FROM_PRETRAINED, LOADS_INSTANCE, switches_itself
from detlint.linter.modes.lists import held_in
from detlint.linter.modes.names import Key
from detlint.linter.modes.other_names import OtherNames
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table
from detlint.randomness import load_sources

# Where projects keep their models: what is called from there, and not found, is taken for a constructor.
_MODEL_CODE = re.compile(
    r"(^|[._])(models?|nets?|networks?|archs?|architectures?|backbones?|modeling|unet|resnet|vgg|cnn)(?=[._\d]|$)", re.I
)
# What gives a model that was saved: `attempt_load(path)` may have switched it, or gives it in the mode that it had.
_LOADS = re.compile(r"(^|_)(load|restore)(_|$)", re.I)
# Conditions by which a function gives a model in one mode or the other.
_ABOUT_MODES = re.compile(r"train|eval|infer|mode|test|valid|grad|freez|frozen|is_", re.I)
# What `get_net()` returns where it makes the net at first use.
_MADE_ONCE = {Mode.TRAIN, Mode.SAME}


class MadeModes(OtherNames, ABC):
    """Answers for the expressions of one module; asks the same of other modules where calls lead there."""

    @abstractmethod
    def modes_at(self, key: Key, node: ast.AST, *, copied: bool = False) -> frozenset[Mode]:
        """Return every mode that a model may be in when `node` is evaluated.

        What happens to it beside or afterwards does not reach one that is `copied` there.
        """

    @abstractmethod
    def peer(self, module: Module) -> MadeModes:
        """Return the answers for another module of the project."""

    def mode_of(self, node: ast.expr, index: tuple[int, ...] = ()) -> Mode:
        """Return the mode of the model that an expression makes or gives."""
        if self._depth >= MAX_DEPTH:
            return Mode.UNKNOWN
        self._depth += 1
        try:
            return self._mode_of(node, index)
        finally:
            self._depth -= 1

    def _mode_of(self, node: ast.expr, index: tuple[int, ...]) -> Mode:
        node = self.unwrapped(node)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            key = self.key(node)
            if key is None:
                return Mode.UNKNOWN
            found = self.modes_at(key, node)
            return Mode.TRAIN if found == _MADE_ONCE and self._is_only_made(key) else _only(found)
        if isinstance(node, ast.IfExp):
            return _same(self.mode_of(node.body), self.mode_of(node.orelse))
        if isinstance(node, (ast.ListComp, ast.List, ast.Dict, ast.DictComp)) and not index:
            held = [self.mode_of(part) for part in held_in(node)]
            return _same(*held) if held else Mode.UNKNOWN
        if not isinstance(node, ast.Call):
            return Mode.UNKNOWN
        mode = switched(node)
        if mode is not None and isinstance(node.func, ast.Attribute):
            return mode
        if from_torchvision_by_name(self.module, node):
            return Mode.TRAIN
        copied = self.copied(node)
        key = self.key(copied) if copied is not None else None
        if copied is not None:
            return _only(self.modes_at(key, copied, copied=True)) if key is not None else self.mode_of(copied)
        modes = [self._made_by(name, node, index) for name in self.module.inference.callees(node)]
        if not modes and identifier(node.func) == LOADS_INSTANCE:
            return Mode.TRAIN  # of a class that a caller gives
        return _same(*modes) if modes else Mode.UNKNOWN

    def _is_only_made(self, key: Key) -> bool:
        """`if _NET is None: _NET = Net()`: does nothing but making it decide the mode of a global or an attribute?"""
        events = self.events_anywhere(key)
        kept = isinstance(key.owner, (ast.Module, ast.ClassDef))
        return kept and all(event.mode is Mode.TRAIN or is_unset(event.made) for event in events)

    def _made_by(self, name: str, call: ast.Call, index: tuple[int, ...]) -> Mode:
        inference = self.module.inference
        found = self.module.project.definition(name)
        if found is not None:
            module, definition = found
            if isinstance(definition, ast.ClassDef):
                info = module.inference.class_info(definition)
                plain = inference.is_module_class(name) and not switches_itself(info, as_made=True)
                return Mode.TRAIN if plain else Mode.UNKNOWN
            return self.peer(module)._returned_mode(Frame(definition, call, None, module, self.module), index)
        factory = load_sources().factories.get(name)
        if factory is not None:
            return Mode.TRAIN if factory == "train" else Mode.EVAL
        if name.endswith(FROM_PRETRAINED):
            return Mode.EVAL
        place, _, last = name.rpartition(".")
        made = _MODEL_CODE.search(place) is not None and not _LOADS.search(last)
        return Mode.TRAIN if made or name in load_types().modules else Mode.UNKNOWN

    def _returned_mode(self, frame: Frame, index: tuple[int, ...]) -> Mode:
        """Return the mode of the model that a call of a function of this module returns (at `index` of a tuple)."""
        modes = {}
        for statement in self.module.flow(self.index.scopes[frame.function]).returns():
            value = None if self.is_ruled_out(statement, frame) else statement.value
            if isinstance(value, ast.Tuple) and index and index[0] < len(value.elts):
                modes[statement] = self._mode_in_call(value.elts[index[0]], index[1:], frame)
            elif value is not None and not is_unset(value) and not self._is_session(value):
                modes[statement] = self._mode_in_call(value, index, frame)
        if {*modes.values()} == {Mode.TRAIN, Mode.EVAL} and not any(map(self._is_asked_for, modes)):
            return Mode.TRAIN  # whoever calls eval() on one way has left it out on the other
        return _same(*modes.values()) if modes else Mode.UNKNOWN

    def _is_asked_for(self, returned: ast.Return) -> bool:
        """`if training: return net`: does what is asked before a function ends tell the mode?"""
        return any(_ABOUT_MODES.search(ast.unparse(test)) for test, _ in self.index.conditions_around(returned))

    def _mode_in_call(self, node: ast.expr, index: tuple[int, ...], frame: Frame) -> Mode:
        """`net`, after `if not train: net.eval()`, in a call that passes `train` or leaves it at its default."""
        if isinstance(node, ast.IfExp) and (chosen := truth(frame, node.test)) is not None:
            return self.mode_of(node.body if chosen else node.orelse, index)
        mode = self.mode_of(node, index)
        key = self.key(node) if mode is Mode.UNKNOWN and isinstance(node, ast.Name) else None
        local = key is not None and key.owner is frame.function
        return _only(self.modes_in_call(frame, key, node)) if key is not None and local else mode

    def _is_session(self, value: ast.expr) -> bool:
        """`InferenceSession(path)`, which a function returns in the place of a model: it has no mode at all."""
        engines = {name.rpartition(".")[0] for name in rounding_table().engines}
        return engines.issuperset(value.type for value in self.module.inference.values(value))


def _same(*modes: Mode) -> Mode:
    """Return the mode that all agree on."""
    found = set(modes)
    return modes[0] if len(found) == 1 else Mode.UNKNOWN


def _only(modes: frozenset[Mode]) -> Mode:
    return next(iter(modes)) if len(modes) == 1 else Mode.UNKNOWN
