"""Functions that put a model's mode back at the end, and never left it: the `eval()` in between is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.promised_class import has_no_mode_by_class
from detlint.linter.modes.switches import switched
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, receiver_of, walk

# A helper of such a name, given the model, or a method of the model may be what switches it.
_SWITCHING = re.compile(r"eval|mode(?!l)|train|freeze")


@dataclass(frozen=True, slots=True)
class RestoredMode:
    """The first call of a model between `before = model.training` and `model.train(before)`, which is `restore`."""

    call: ast.Call
    model: str
    restore: ast.Call


def restored_modes(module: Module) -> Iterator[RestoredMode]:
    """Yield the models that a function of the file calls in a mode that it keeps in mind, and does not change."""
    if is_test_file(module) or "training" not in module.index.names_used:
        return
    for restore in module.index.calls_by_name.get("train", ()):
        function = module.index.function_at(restore)
        if isinstance(function, FUNCTIONS) and isinstance(restore.func, ast.Attribute) and arguments_of(restore):
            found = _kept(function, restore, restore.func.value)
            if found is not None and not has_no_mode_by_class(module, restore.func.value):
                yield found


def _kept(function: FunctionNode, restore: ast.Call, model: ast.expr) -> RestoredMode | None:
    """Return the first call of the model, if `restore` gives it the mode that the function read and never changed."""
    text, before = ast.unparse(model), identifier(arguments_of(restore)[0])
    reads = [
        part
        for part in walk(function)
        if isinstance(part, ast.Assign)
        and [identifier(target) for target in part.targets] == [before]
        and ast.unparse(part.value) == f"{text}.training"
    ]
    calls = [part for part in walk(function) if isinstance(part, ast.Call) and part is not restore]
    if len(reads) != 1 or any(switched(call) is not None or _may_switch(call, text) for call in calls):
        return None
    used = [call for call in calls if reads[0].lineno < call.lineno < restore.lineno and _runs(call, text)]
    return RestoredMode(used[0], text, restore) if used else None


def _may_switch(call: ast.Call, model: str) -> bool:
    """`set_eval(model)`, `with inference_mode_of(model):`, `model.freeze()`."""
    concerned = [*arguments_of(call), receiver_of(call)] if _SWITCHING.search(identifier(call.func)) else []
    return any(part is not None and ast.unparse(part) in (model, "self") for part in concerned)


def _runs(call: ast.Call, model: str) -> bool:
    called = ast.unparse(call.func)
    return called in (model, f"{model}.forward", f"{model}.generate", f"{model}.predict")
