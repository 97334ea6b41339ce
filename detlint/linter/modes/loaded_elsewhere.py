"""Models that run far from where they were loaded, in a project that leaves them in the mode that they are made in."""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.module import Module
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.kept_elsewhere import Origin, origins, speaking_of
from detlint.linter.modes.layers import is_layer, parts_of
from detlint.linter.modes.loaded_weights import LoadedWeights
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.switches import Mode, switched, switched_by_library
from detlint.linter.programs.training import file_trains
from detlint.linter.source.nodes import identifier
from detlint.randomness import load_sources


def loaded_elsewhere(modes: Modes, model: ast.expr) -> list[Reason]:
    """Return where each model that an expression may be was loaded as it was made, which nothing switches after that.

    Nothing where one of them was made otherwise, or where the project may switch it.
    """
    found = origins(modes, model)
    if not found or not all(_is_loaded_as_made(modes.peer(each.module), each) for each in found):
        return []
    if not _is_never_switched(modes.module, identifier(model), found):
        return []
    return [Reason(origin.module, origin.node, None, True) for origin in found]


def _is_loaded_as_made(modes: Modes, origin: Origin) -> bool:
    """Are weights loaded into a model that is put there in train mode, and holds a layer for which that matters?"""
    if modes.mode_of(origin.node, origin.place) is not Mode.TRAIN:
        return False
    made = list(Constructors(modes).of_expression(origin.node, origin.place))
    if parts_of(made, made=True) is not Truth.YES or all(is_layer(*each) for each in made):
        return False
    weights = LoadedWeights(modes)
    key = modes.key(origin.node) if not origin.place else None
    return weights.by_making(made) or (key is not None and weights.into(key))


def _is_never_switched(module: Module, name: str, found: list[Origin]) -> bool:
    """Does nothing in the project take a model out of train mode, but for files that train and never speak of it?"""
    around = speaking_of(name, module)
    switching = speaking_of("eval", module)
    if around is None or switching is None:
        return False
    near = {module, *around, *(origin.module for origin in found)}
    return not any(_leaves_train(place) for place in near) and all(
        file_trains(place) for place in switching if _leaves_train(place)
    )


def _leaves_train(module: Module) -> bool:
    """Does a file call `net.eval()`, `net.train(False)`, or what a library does the same by?"""
    calls = module.index.calls_by_name
    named = (call for name in ("eval", "train", *load_sources().switches.lasts) for call in calls.get(name, ()))
    return any(
        switched(call) not in (None, Mode.TRAIN)
        or switched_by_library(module.inference.resolve(call.func)) not in (None, Mode.TRAIN)
        for call in named
    )
