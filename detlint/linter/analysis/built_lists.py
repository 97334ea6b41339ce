"""Modules that a function puts into a list or dict: what it takes out of that again."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.source.names import COMPREHENSIONS, Binding
from detlint.linter.source.nodes import identifier

_HOLDERS = frozenset({"torch.nn.ModuleList", "torch.nn.ModuleDict"})
# What gives the elements of a list one by one, and how many other values come before each of them.
_ONE_BY_ONE = {"enumerate": 1, "reversed": None, "list": None, "tuple": None}


def taken_out(node: ast.expr, ctx: Context) -> list[ast.expr | None]:
    """Return the expressions that may give a module again which goes into a list, and None for each other use of that.

    `layers.append(nn.Linear(8, 8))`, and then `layers[-1]`, `for layer in layers` or `nn.Sequential(*layers)`; what
    stands in a dict is taken out by its key.
    """
    whole = _display_around(node, ctx)
    if whole is not None and _loop_variable(whole, ctx) is not None:
        return _given_by(whole, ctx)  # `for layer in (nn.ReLU(), nn.Dropout(0.1))`
    binding = ctx.binding(whole) if whole is not None else _list_filled(node, ctx)
    if binding is None:
        return [None]
    return [given for use in ctx.flow(node).uses(binding) for given in _given_by(use, ctx)]


def _display_around(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the list, tuple or dict that a module is written in, with the `nn.ModuleList` that is made of it."""
    parent = ctx.parent(node)
    inside = isinstance(parent, (ast.List, ast.Tuple)) or (isinstance(parent, ast.ListComp) and parent.elt is node)
    if not isinstance(parent, ast.expr) or not (inside or (isinstance(parent, ast.Dict) and node in parent.values)):
        return None
    around = ctx.parent(parent)
    holds = isinstance(around, ast.Call) and not _HOLDERS.isdisjoint(ctx.resolve(around.func))
    return around if holds and isinstance(around, ast.Call) else parent


def _list_filled(node: ast.expr, ctx: Context) -> Binding | None:
    """`layers.append(nn.Linear(8, 8))`."""
    parent = ctx.parent(node)
    filled = parent.func if isinstance(parent, ast.Call) and node in parent.args else None
    if not isinstance(filled, ast.Attribute) or filled.attr != "append" or not isinstance(filled.value, ast.Name):
        return None
    bindings = ctx.module.definitions(filled.value)
    return bindings[0] if len(bindings) == 1 and isinstance(bindings[0].value, ast.List) else None


def _given_by(use: ast.expr, ctx: Context) -> list[ast.expr | None]:
    parent = ctx.parent(use)
    if isinstance(parent, ast.Starred) or (
        isinstance(parent, ast.Subscript) and not isinstance(parent.slice, ast.Slice)
    ):
        return [parent]
    if isinstance(parent, ast.Attribute) and parent.attr == "append":
        return []
    if isinstance(parent, ast.Call) and identifier(parent.func) == "len":
        return []
    target = _loop_variable(use, ctx)
    binding = (
        next((each for each in ctx.module.index.bindings_of(target) if each.node is target), None) if target else None
    )
    if target is None or binding is None:
        return [None]
    if isinstance(binding.scope.node, COMPREHENSIONS):
        return [each for each in ctx.module.index.uses_of(target) if each is not target]
    return [*ctx.flow(target).uses(binding)]


def _loop_variable(use: ast.expr, ctx: Context) -> ast.Name | None:
    """Return `layer` of `for i, (layer, size) in enumerate(zip(layers, sizes))`."""
    places: list[int] = []
    node: ast.AST = use
    parent = ctx.parent(node)
    while isinstance(parent, ast.Call) and node in parent.args:
        called = identifier(parent.func)
        place = parent.args.index(node) if called == "zip" else _ONE_BY_ONE.get(called, -1)
        if place == -1:
            return None
        places += [place] if place is not None else []
        node, parent = parent, ctx.parent(parent)
    target = parent.target if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node else None
    for place in reversed(places):
        target = target.elts[place] if isinstance(target, ast.Tuple) and place < len(target.elts) else None
    return target if isinstance(target, ast.Name) else None
