"""Which layers does an object hold? What is done to one of them leaves alone the weights that it holds itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.values import Kind, Value
from detlint.linter.source.names import COMPREHENSIONS
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_CONTAINERS = (".Sequential", "List", "Dict", "Parallel", ".Module")


def holds_layers_of_torch(node: ast.expr, ctx: Context) -> bool:
    """Is a module known that holds no module of the project?"""
    values = ctx.values(node)
    return bool(values) and all(_is_of_torch(value, ctx) for value in values)


def _is_of_torch(value: Value, ctx: Context) -> bool:
    """`nn.Linear(n, m)`, and `nn.ModuleList([nn.Linear(n, m) for _ in range(k)])` of this file."""
    if isinstance(value.node, ast.List) and not value.node.elts:
        return True  # `self.heads = []`, until there are layers
    if value.kind is not Kind.MODULE or not value.type.startswith("torch.nn."):
        return False
    if not value.type.endswith(_CONTAINERS):
        return True
    layers = _elements(value.node) if value.module is ctx.module else []
    return bool(layers) and all(isinstance(layer, ast.Call) and holds_layers_of_torch(layer, ctx) for layer in layers)


def _elements(container: ast.AST | None) -> list[ast.expr]:
    """Return what stands in a container's own brackets: `nn.Sequential(a, b)`, `nn.ModuleList([a, b])`."""
    given = container.args if isinstance(container, ast.Call) else []
    elements: list[ast.expr] = []
    for each in given:
        if isinstance(each, (ast.List, ast.Tuple)):
            elements += each.elts
        elif isinstance(each, COMPREHENSIONS) and not isinstance(each, ast.DictComp):
            elements.append(each.elt)
        else:
            elements.append(each)
    return elements


def is_about_a_part(loop: ast.For, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.head.parameters()` as against `self.parameters()`: a part of the object, or of another a layer of torch."""
    function = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    part = function.value if isinstance(function, ast.Attribute) else None
    if part is None or not is_own(part):
        return False
    return ctx.module.index.class_at(loop) is owner or holds_layers_of_torch(part, ctx)


def is_a_part(receiver: ast.expr, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.encoder` of `self.encoder.load_state_dict(…)`, in the class itself: its own weights are no part of it."""
    return is_own(receiver) and ctx.module.index.class_at(receiver) is owner
