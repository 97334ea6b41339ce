"""Models that give their losses in train mode only: whoever wants those has to leave them in it."""

from __future__ import annotations

import ast

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.source.nodes import identifier, walk

_PLAIN_BASE = frozenset({"torch.nn.Module"})
# Where torchvision, and others after it, keep what gives losses in train mode and boxes in eval mode.
_DETECTION = "detection"


def asks_for_losses(module: Module, call: ast.Call) -> bool:
    """`losses = net(images, targets)`, of a model that may give something else in eval mode.

    `output, loss = net(x, y)` gives its prediction as well; and a class that was read says if it asks for its mode.
    """
    parent = module.index.parents.get(module.index.with_choice(call))
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if not any("loss" in ast.unparse(target) for target in targets):
        return False
    parts = [identifier(part) for target in targets if isinstance(target, ast.Tuple) for part in target.elts]
    if any(name.strip("_") and "loss" not in name for name in parts):
        return False
    return not _is_alike_in_both_modes(module, call)


def _is_alike_in_both_modes(module: Module, call: ast.Call) -> bool:
    called = [call.func, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    values = [value for node in called for value in module.inference.values(node) if value.kind is Kind.MODULE]
    infos = [module.inference.class_named(value.type) for value in values]
    return bool(infos) and all(info is not None and _asks_nothing(info) for info in infos)


def _asks_nothing(info: ClassInfo, steps: int = 2) -> bool:
    """Is a class, with the classes of the project that its parts are of, run alike whatever its mode is?"""
    inference = info.module.inference
    if not _PLAIN_BASE.issuperset(inference.external_bases(info)):
        return False
    for each in inference.mro(info):
        if any(isinstance(part, ast.Attribute) and part.attr == "training" for part in walk(each.node)):
            return False
        writes = [write for found in each.attributes.values() for write in found]
        for value in (value for write in writes for value in each.module.inference.values(write.value)):
            part = inference.class_named(value.type) if value.kind is Kind.MODULE else None
            if _DETECTION in value.type or (part is not None and (not steps or not _asks_nothing(part, steps - 1))):
                return False
    return True
