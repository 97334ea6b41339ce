"""Models that are kept together, in a list or dict."""

from __future__ import annotations

import ast

from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.index import Index
from detlint.linter.source.names import Binding, BindingKind, element_at
from detlint.linter.source.nodes import identifier, receiver_of, walk

# What stands between a list or dict of models and the loop that goes through it.
_PASSING = (ast.Tuple, ast.List, ast.Starred, ast.Dict, ast.Attribute, ast.Call)
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)
_PARTS = ("values", "items")
_GOING_THROUGH = (*_PARTS, "enumerate", "zip", "list", "tuple", "reversed", "sorted", "chain")


def held_in(node: ast.expr) -> list[ast.expr]:
    """Return the expressions of the models in `[Net() for _ in range(5)]`, `{"a": Net()}` and their like."""
    if isinstance(node, ast.ListComp):
        return [node.elt]
    if isinstance(node, _DISPLAYS):
        return node.elts
    if isinstance(node, ast.DictComp):
        return [node.value]
    return node.values if isinstance(node, ast.Dict) else []


def taken_in_turn(binding: Binding) -> list[ast.expr]:
    """Return `first` and `second` for the `net` of `for net in (first, second):`, of pairs with a name what is paired.

    Nothing for what takes no turns, or goes through what is written elsewhere.
    """
    source, place = binding.value, binding.index
    if binding.kind is not BindingKind.ITERATION:
        return []
    if isinstance(source, ast.Call) and isinstance(receiver_of(source), ast.Dict):  # `{"raw": first}.items()`
        named = {"values": (), "items": (1,)}.get(identifier(source.func)) == place
        return held_in(source.func.value) if named and isinstance(source.func, ast.Attribute) else []
    turns = [element_at(each, place) for each in source.elts] if isinstance(source, _DISPLAYS) else []
    return [each for each in turns if each is not None]


def gone_round(index: Index, node: ast.AST) -> ast.AST | None:
    """Return what goes through the models of a list or dict: `for name, net in nets.items()`, `enumerate(nets)`."""
    parent = index.parents.get(node)
    while isinstance(parent, _PASSING):
        if isinstance(parent, ast.Attribute) and parent.attr not in _PARTS:
            return None
        if isinstance(parent, ast.Call) and identifier(parent.func) not in _GOING_THROUGH:
            return None
        node, parent = parent, index.parents.get(parent)
    return parent if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node else None


def leaves_train_each(loop: ast.AST | None, index: Index) -> bool:
    """`for layer in net.modules(): layer.training = False`, for all of them or those that drop something.

    A loop that asks for normalisation leaves what drops in train mode.
    """
    body = index.parents.get(loop) if isinstance(loop, ast.comprehension) else loop
    parts = list(walk(body)) if body is not None else []
    tests = (part.test for part in parts if isinstance(part, (ast.If, ast.IfExp)))
    if any("Norm" in ast.unparse(test) for test in tests):
        return False
    return any(
        switched(part) not in (None, Mode.TRAIN)
        if isinstance(part, ast.Call)
        else isinstance(part, ast.Attribute) and part.attr == "training" and isinstance(part.ctx, ast.Store)
        for part in parts
    )
