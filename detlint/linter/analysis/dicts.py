"""Dictionaries that are written out: what stands under each of their keys."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from detlint.linter.analysis.elements import gone_through
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.written_here import own_property
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier, receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_READING = ("get", "items", "keys", "values", "copy")
_VIEWS = {"values": (), "items": (1,)}  # where these hold what stands under the keys
_MAX_STEPS = 8  # of names, keys and functions that lead on: `options = options["inner"]` in a loop leads to itself


def written_items(module: Module, node: ast.expr, steps: int = _MAX_STEPS) -> Mapping[str, ast.expr] | None:
    """Return the items of `{"size": 8}` or `dict(size=8)`, also under a name or key that nothing else touches.

    So of what a function or a property of the file gives back, and of what is put together of such. None of anything
    else: an absent key is absent for sure.
    """
    if not steps:
        return None
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        only = bindings[0] if len(bindings) == 1 and len(bindings[0].of_same_name) == 1 else None
        if only is None or only.kind is not BindingKind.ASSIGN or only.value is None or only.index:
            return None
        if isinstance(only.value, ast.Name) or is_changed(module, node):
            return None
        return written_items(module, only.value, steps - 1)
    if isinstance(node, ast.Attribute):
        kept = only_value(module, node) or _given_back(module, own_property(module, node))
        if kept is None or is_changed(module, node):
            return None
        return written_items(module, kept, steps - 1)
    if isinstance(node, ast.Subscript):  # `PRESETS["fast"]`
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        held = (written_items(module, node.value, steps - 1) or {}).get(key) if isinstance(key, str) else None
        return written_items(module, held, steps - 1) if held is not None else None
    parts = _parts(node)
    if parts is not None:
        return _merged(module, parts, steps - 1)
    if isinstance(node, ast.Call):
        definitions = [module.project.definition(name) for name in module.inference.callees(node)]
        made = _given_back(module, definitions[0]) if len(definitions) == 1 else None
        return written_items(module, made, steps - 1) if made is not None else None
    return None


def kept_items(module: Module, node: ast.expr) -> Mapping[str, ast.expr]:
    """Return the items of a dictionary under a name that only gets others besides: after `options["align"] = False`.

    Empty where anything else is done to it, or where `written_items` tells all of it.
    """
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return {}
    put = _keys_put(module, identifier(node))
    made = only_value(module, node) if put else None
    items = written_items(module, made) if isinstance(made, (ast.Dict, ast.Call)) else None
    return {key: value for key, value in (items or {}).items() if put is not None and key not in put}


def _keys_put(module: Module, name: str) -> set[str] | None:
    """Return the keys that are put into what goes by a name, None where more is done to it than that."""
    keys: set[str] = set()
    for use in module.index.names_used.get(name, ()):
        parent = module.index.parents.get(use)
        if isinstance(parent, ast.Subscript) and parent.value is use and not isinstance(parent.ctx, ast.Load):
            key = parent.slice.value if isinstance(parent.slice, ast.Constant) else None
            if not isinstance(key, str) or not isinstance(parent.ctx, ast.Store):
                return None
            keys.add(key)
        elif isinstance(parent, ast.Attribute) and parent.attr not in _READING:
            return None
    return keys


def parts_spread(module: Module, node: ast.expr) -> list[ast.expr]:
    """Return the dictionaries that `{**common, **options}` is put together of, also under a name; else itself."""
    made = only_value(module, node) if isinstance(node, ast.Name) else None
    parts = _parts(made if made is not None else node)
    return [node] if parts is None else [part for key, part in parts if key is None]


def entries_of(node: ast.expr) -> list[tuple[ast.expr | None, ast.expr]] | None:
    """Return the keys and values that a dictionary is written with, in their order; None of anything else.

    Those of another one that is taken in, `{**base}` and `base | more`, stand under no key.
    """
    if isinstance(node, ast.Dict):
        return list(zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [(None, node.left), (None, node.right)]
    if not isinstance(node, ast.Call):
        return None
    if getattr(node.func, "id", "") == "dict":
        words = [(ast.Constant(word.arg) if word.arg is not None else None, word.value) for word in node.keywords]
        return [*((None, base) for base in node.args), *words]
    copied = receiver_of(node) if identifier(node.func) == "copy" and not node.args else None
    return [(None, copied)] if copied is not None else None


def entries_updated(call: ast.AST | None) -> list[tuple[ast.expr | None, ast.expr]] | None:
    """Return the entries that `options.update(size=8)` or `options.update({"size": 8})` puts in, None of others."""
    if not isinstance(call, ast.Call) or identifier(call.func) != "update":
        return None
    given = entries_of(ast.Call(ast.Name("dict"), call.args, call.keywords)) or []
    return [entry for key, value in given for entry in (entries_of(value) if key is None else None) or [(key, value)]]


def _parts(node: ast.expr) -> list[tuple[str | None, ast.expr]] | None:
    """Return the entries of a dictionary by key, None where a key is no text that is written out."""
    parts: list[tuple[str | None, ast.expr]] = []
    entries = entries_of(node)
    for key, value in entries or ():
        word = key.value if isinstance(key, ast.Constant) else None
        if key is not None and not isinstance(word, str):
            return None
        parts.append((word if isinstance(word, str) else None, value))
    return parts if entries is not None else None


def _merged(module: Module, parts: list[tuple[str | None, ast.expr]], steps: int) -> Mapping[str, ast.expr] | None:
    items: dict[str, ast.expr] = {}
    for key, value in parts:
        inner = {key: value} if key is not None else written_items(module, value, steps)
        if inner is None:
            return None
        items.update(inner)
    return items


def _given_back(module: Module, found: tuple[Module, ast.AST] | None) -> ast.Dict | ast.Call | None:
    """Return what a function of the file makes and gives back, in the one place where it does."""
    if found is None or found[0] is not module or not isinstance(found[1], FUNCTIONS):
        return None
    returned = [statement.value for statement in module.flow(module.index.scopes[found[1]]).returns()]
    made = returned[0] if len(returned) == 1 else None
    return made if isinstance(made, (ast.Dict, ast.Call)) else None


def looped_over(module: Module, node: ast.Name) -> Iterator[ast.expr]:
    """Yield the dictionaries that a loop goes through one by one: `for options in PROFILES.values()`."""
    bindings = module.definitions(node)
    only = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.ITERATION else None
    if only is None or only.value is None:
        return
    whole, place = gone_through(module.inference, only.value, only.index)
    view = whole.func if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute) else None
    if view is not None and place is not None and place == _VIEWS.get(view.attr):
        yield from (written_items(module, view.value) or {}).values()


def looped_items(module: Module, key: ast.expr) -> Mapping[str, ast.expr]:
    """Return the items that a loop goes through whose keys `key` is: `for name, value in OPTIONS.items()`."""
    bindings = module.definitions(key) if isinstance(key, ast.Name) else ()
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ITERATION or bindings[0].value is None:
        return {}
    whole, place = gone_through(module.inference, bindings[0].value, bindings[0].index)
    if place != (0,):
        return {}
    whole = (only_value(module, whole) if isinstance(whole, ast.Name) else None) or whole
    if not isinstance(whole, ast.Call) or not isinstance(whole.func, ast.Attribute) or whole.func.attr != "items":
        return {}
    return written_items(module, whole.func.value) or {}


def may_hold(module: Module, node: ast.expr, key: str, steps: int = _MAX_STEPS) -> bool:
    """May a dictionary hold a key? Not if it is made in sight and only filled under other keys that are written out."""
    if not isinstance(node, ast.Name):
        return _may_be_in(module, node, key, steps)
    bindings = module.definitions(node)
    made: list[ast.expr | None] = [*looped_over(module, node)] or [binding.value for binding in bindings]
    uses = module.index.names_used.get(node.id, ())
    return any(value is None or _may_be_in(module, value, key, steps) for value in made or (None,)) or any(
        _may_put_in(module, use, key) for use in uses
    )


def _may_be_in(module: Module, display: ast.expr, key: str, steps: int) -> bool:
    """`{"size": 8} if fast else {}`, `{**common, **options}`."""
    if isinstance(display, ast.IfExp):
        return any(_may_be_in(module, branch, key, steps) for branch in (display.body, display.orelse))
    items = written_items(module, display) if not isinstance(display, ast.Name) else None
    if items is not None:
        return key in items
    parts = _parts(display) if steps else None
    return parts is None or any(
        word == key if word is not None else may_hold(module, part, key, steps - 1) for word, part in parts
    )


def _may_put_in(module: Module, use: ast.AST, key: str) -> bool:
    """`options["size"] = 8` puts in a key, and any method or function may."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Subscript) and parent.value is use and not isinstance(parent.ctx, ast.Load):
        return not isinstance(parent.slice, ast.Constant) or parent.slice.value == key
    if isinstance(parent, ast.Attribute):
        put = entries_updated(module.index.parents.get(parent))
        if put is not None:
            return any(not isinstance(word, ast.Constant) or word.value == key for word, _ in put)
        return parent.attr not in _READING
    return isinstance(parent, ast.Call) or (isinstance(parent, ast.keyword) and parent.arg is not None)


def is_changed(module: Module, node: ast.Name | ast.Attribute) -> bool:
    """`sizes["width"] = 8`, `sizes.update(…)`: whatever is called on it counts but for `get` and its like."""
    index = module.index
    for use in index.uses_of(node) if isinstance(node, ast.Name) else index.names_used.get(node.attr, ()):
        parent = index.parents.get(use)
        if isinstance(parent, ast.Subscript) and parent.value is use and not isinstance(parent.ctx, ast.Load):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr not in _READING:
            return True
    return False
