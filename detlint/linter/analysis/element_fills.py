"""What is put into a container: `words.add(word)`, `words |= more`, `rows[key] = row`, `rows[key].append(word)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.element_sort import Move, Step, Steps
from detlint.linter.source.index import Index
from detlint.linter.source.nodes import receiver_of


def entries(container: ast.Name | ast.Attribute, index: Index) -> Iterator[tuple[ast.expr, Steps]]:
    """Yield what is put into the entries of a dict, with the steps from there (see `put_in`)."""
    if isinstance(container, ast.Attribute):
        place: ast.AST | None = index.class_at(container)
    else:
        scope = index.scope_at(container).lookup(container.id)
        place = scope.node if scope is not None else None
    if place is not None:
        yield from put_in(index, ast.unparse(container), place, (Move.LOOKED_UP,))


def first_entries(container: ast.Name | ast.Attribute, index: Index) -> Iterator[ast.expr]:
    """Yield what entries of a dict start as: `words.setdefault(key, set())`."""
    text = ast.unparse(container)
    for call in index.calls_by_name.get("setdefault", ()):
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text and len(call.args) > 1:
            yield call.args[1]


def put_in(
    index: Index, text: str, place: ast.AST, steps: Steps, *, listed: bool = False
) -> Iterator[tuple[ast.expr, Steps]]:
    """Yield expressions, each with the steps that lead from it to what `steps` lead to from a container.

    The container is the variable of the function `place`, or the attribute of the class, that is written as `text`.
    Going through it gives the keys of what is stored, or what is stored itself where it is `listed`.
    """
    first, rest = steps[0], steps[1:]
    keyed = first is Move.ITERATED and not listed
    calls = index.calls_by_name
    for call in [call for name in ("add", "append", "insert", "appendleft") for call in calls.get(name, ())]:
        holder, keys = _holder(index, call, text, place)
        if holder and call.args:
            if not keys:
                yield call.args[-1], rest
            elif keyed:
                yield keys[0], rest
            elif rest and may_be(keys[0], first):
                yield call.args[-1], rest[1:]
    for call in [call for name in ("update", "extend") for call in calls.get(name, ())]:
        holder, keys = _holder(index, call, text, place)
        if holder and keys and keyed:
            yield keys[0], rest
        elif holder and (not keys or rest):
            yield from ((given, rest if keys else steps) for given in call.args)
    for statement in index.of_type(ast.Assign):
        for target in statement.targets:
            if not isinstance(target, ast.Subscript) or not may_be(target.slice, first):
                continue
            if _stands_for(index, target.value, text, place):
                yield (target.slice if keyed else statement.value), rest
    for added in index.of_type(ast.AugAssign):
        if _stands_for(index, added.target, text, place):
            yield added.value, steps
        elif isinstance(added.target, ast.Subscript) and _stands_for(index, added.target.value, text, place):
            yield (added.target.slice if keyed else added.value), rest


def _holder(index: Index, call: ast.Call, text: str, place: ast.AST) -> tuple[bool, list[ast.expr]]:
    """Does a method call fill the container, or an entry of it? With the key of the entry."""
    filled = receiver_of(call)
    if isinstance(filled, ast.Call) and isinstance(filled.func, ast.Attribute) and filled.func.attr == "setdefault":
        return _stands_for(index, filled.func.value, text, place), filled.args[:1]
    if isinstance(filled, ast.Subscript):
        return _stands_for(index, filled.value, text, place), [filled.slice]
    return filled is not None and _stands_for(index, filled, text, place), []


def _stands_for(index: Index, node: ast.expr, text: str, place: ast.AST) -> bool:
    if not isinstance(node, (ast.Name, ast.Attribute)) or ast.unparse(node) != text:
        return False
    if isinstance(node, ast.Name):
        scope = index.scope_at(node).lookup(node.id)
        return scope is not None and scope.node is place
    return index.class_at(node) is place


def may_be(key: ast.expr | None, step: Step) -> bool:
    """Can an entry be the one that is asked for? Only a key that is written out can tell that it is another one."""
    return not isinstance(step, str) or (isinstance(key, ast.Constant) and key.value == step)
