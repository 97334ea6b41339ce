"""Which layers does an object hold? What is done to one of them leaves alone the weights that it holds itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.taken import taken
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.memory.looped import source_of
from detlint.linter.source.names import COMPREHENSIONS
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_CONTAINERS = (".Sequential", "List", "Dict", "Parallel", ".Module")


def holds_layers_of_torch(node: ast.expr, ctx: Context) -> bool:
    """Is a module known that holds no module of the project, `self.heads["last"]` of such a container included?"""
    if isinstance(node, ast.Subscript) and holds_layers_of_torch(node.value, ctx):
        return True
    values = [value for value in ctx.values(node) if value.kind is not Kind.NONE]
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
    """Return what stands in a container's own brackets: `nn.ModuleList([a, b])`, `nn.ModuleDict({"first": a})`."""
    given = container.args if isinstance(container, ast.Call) else []
    elements: list[ast.expr] = []
    for each in given:
        if isinstance(each, (ast.List, ast.Tuple)):
            elements += each.elts
        elif isinstance(each, ast.Dict):
            elements += each.values
        elif isinstance(each, COMPREHENSIONS):
            elements.append(each.value if isinstance(each, ast.DictComp) else each.elt)
        else:
            elements.append(each)
    return elements


def is_about_a_part(loop: ast.For, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.head.parameters()` as against `self.parameters()`: a part of the object, or of another a layer of torch.

    The loop may stand in one through such parts: `for block in [self.first, self.second]`.
    """
    source = source_of(loop, ctx)
    function = source.func if isinstance(source, ast.Call) else None
    parts = held_parts(function.value, ctx) if isinstance(function, ast.Attribute) else []
    if not parts:
        return False
    return ctx.module.index.class_at(loop) is owner or all(holds_layers_of_torch(part, ctx) for part in parts)


def held_parts(node: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return the parts of the object that an expression is: `self.head`, `block` in a loop through several of them."""
    parts = [node]
    if isinstance(node, ast.Name):
        parts = [each for binding in ctx.module.definitions(node) for each in taken(ctx.module, binding)]
    return parts if all(map(_is_held, parts)) else []


def _is_held(node: ast.expr) -> bool:
    """`self.head`, `self.visual.layers[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)) and not is_own(node):
        node = node.value
    return is_own(node)


def is_a_part(receiver: ast.expr, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.encoder` of `self.encoder.load_state_dict(…)`, in the class itself: its own weights are no part of it."""
    return is_own(receiver) and ctx.module.index.class_at(receiver) is owner
