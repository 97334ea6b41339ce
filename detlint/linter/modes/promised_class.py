"""Does a model hold layers that depend on the mode, going by the class that an annotation promises of it?"""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.calls_elsewhere import heirs_with
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.layers import parts_of_class

# Classes that give the modules they are mixed into some parts more.
_MIXIN = "Mixin"
_REGISTERS = frozenset({"torch.nn.ModuleDict", "torch.nn.ModuleList"})


def has_no_mode_by_class(module: Module, model: ast.expr) -> bool:
    """Return whether `def score(net: Linear, x)`, or the attribute of an annotated object, is of such classes alone.

    Neither what it may be by its class nor what the project derives from that may hold a layer with a mode.
    """
    values = [value for value in module.inference.values(model) if value.kind is not Kind.NONE]
    infos = [module.inference.class_named(value.type) for value in values if value.kind is Kind.MODULE]
    return bool(infos) and len(infos) == len(values) and all(info and _is_without_mode(info) for info in infos)


def _is_without_mode(info: ClassInfo) -> bool:
    heirs = heirs_with(info.module, info.node, "__init__")
    derived = (module.inference.class_info(heir) for module, heir in heirs)
    return all(parts_of_class(each) is Truth.NO for each in (info, *derived))


def is_registered_by_mixin(module: Module, owner: ast.ClassDef, name: str) -> bool:
    """`self.adapters = nn.ModuleDict()` in a class that is mixed into modules: only in a module that registers them."""
    info = module.inference.class_info(owner)
    if not owner.name.endswith(_MIXIN):
        return False
    writes = [write.value for _, write in module.inference.attribute_writes(info, name)]
    calls = [value for value in writes if isinstance(value, ast.Call)]
    return bool(calls) and all(not _REGISTERS.isdisjoint(module.inference.resolve(call.func)) for call in calls)
