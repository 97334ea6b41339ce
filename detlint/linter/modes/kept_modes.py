"""In which mode is a model that another object keeps, as in `score(averaged.shadow, rows)`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.modes.kept_elsewhere import origins, speaking_of
from detlint.linter.modes.switches import Mode

if TYPE_CHECKING:
    from detlint.linter.modes.made_modes import MadeModes


def mode_as_kept(modes: MadeModes, model: ast.expr) -> Mode:
    """Return the mode that a model is put under an attribute in, if nothing of that name is switched anywhere."""
    if not isinstance(model, ast.Attribute):
        return Mode.UNKNOWN
    return modes.module.project.once(_KeptModes, modes).of(model)


class _KeptModes:
    """The answers for the attributes of one module, each worked out once."""

    def __init__(self, modes: MadeModes) -> None:
        self._modes = modes
        self._known: dict[ast.Attribute, Mode] = {}

    def of(self, model: ast.Attribute) -> Mode:
        if model not in self._known:
            self._known[model] = Mode.UNKNOWN  # what is put there may come from the same place
            self._known[model] = self._find(model)
        return self._known[model]

    def _find(self, model: ast.Attribute) -> Mode:
        found = origins(self._modes, model)
        kept = {self._modes.peer(origin.module).mode_of(origin.node, origin.place) for origin in found}
        return kept.pop() if len(kept) == 1 and not may_be_switched(self._modes, model.attr) else Mode.UNKNOWN


def may_be_switched(modes: MadeModes, name: str) -> bool:
    """Does the project take what goes by a name out of train mode, or may it, wherever it speaks of that?"""
    return modes.module.project.once(_is_switched_by_name, (modes, name))


def _is_switched_by_name(asked: tuple[MadeModes, str]) -> bool:
    modes, name = asked
    places = speaking_of(name, modes.module)
    return places is None or any(
        isinstance(use, (ast.Name, ast.Attribute)) and modes.peer(place).leaves_train_at(use)
        for place in places
        for use in place.index.names_used.get(name, ())
    )
