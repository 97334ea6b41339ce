"""Parts that are taken out of a model: `net.encoder`, `net.towers["left"]`, `net.backbone()`. They are in its mode."""

from __future__ import annotations

import ast
from typing import NamedTuple

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own, walk


class Part(NamedTuple):
    """A part of the model `whole`, of a class of the project; the attribute is empty where that cannot be told."""

    whole: ast.expr
    info: ClassInfo
    attribute: str


def taken_part(module: Module, node: ast.expr) -> Part | None:
    """Return which part of which model an expression gives, None where it gives none."""
    while isinstance(node, ast.Subscript):
        node = node.value
    taken = node.func if isinstance(node, ast.Call) else node
    if not isinstance(taken, ast.Attribute):
        return None
    for value in module.inference.values(taken.value):
        info = module.inference.class_named(value.type) if value.kind is Kind.MODULE else None
        mro = info.module.inference.mro(info) if info is not None else ()
        if info is None or not mro:
            continue
        method = next((each.methods[taken.attr] for each in mro if taken.attr in each.methods), None)
        if taken is node and method is None and any(taken.attr in each.attributes for each in mro):
            return Part(taken.value, info, taken.attr)
        names = _given_by(method) if taken is not node and method is not None else set()
        if len(names) == 1:
            return Part(taken.value, info, names.pop())
    return None


def _given_by(method: FunctionNode) -> set[str]:
    """Return the attributes of the object that a method gives back and does no more, an empty one for `getattr`."""
    returned = [part.value for part in walk(method) if isinstance(part, ast.Return)]
    plain = not any(isinstance(part, (ast.Assign, ast.For, ast.With)) for part in walk(method))
    names = [_own_attribute(value) for value in returned] if plain else []
    return {name for name in names if name is not None} if None not in names else set()


def _own_attribute(value: ast.expr | None) -> str | None:
    """`self.encoder`, `self.towers[side]`, `getattr(self, side)`."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Call):
        looked_up = (
            getattr(value.func, "id", "") == "getattr" and identifier(value.args[0] if value.args else None) == "self"
        )
        return "" if looked_up else None
    return value.attr if isinstance(value, ast.Attribute) and is_own(value) else None
