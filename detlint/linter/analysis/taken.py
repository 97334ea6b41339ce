"""What may a loop give its names, one after the other? The expressions of the elements, as far as they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.dicts import written_items
from detlint.linter.analysis.element_fills import put_in
from detlint.linter.analysis.element_sort import Move
from detlint.linter.analysis.elements import gone_through
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_here import kept_in, made_here, written_out
from detlint.linter.source.names import Binding, BindingKind, unpacked
from detlint.linter.source.nodes import identifier, unless_none
from detlint.linter.tables.rounding import rounding_table

_STEPS = 4
_MOST_VIEWS = 6
_WRAPPING = ("from_numpy", "as_tensor", "tensor", "array", "asarray")
_OF_DICTS = ("items", "values")
_SAME_ORDER = frozenset({"builtins.list", "builtins.tuple"})
_SAME = ("builtins.reversed", "builtins.list", "builtins.tuple", "builtins.iter")
Place = tuple[int, ...]


def taken(module: Module, binding: Binding, steps: int = _STEPS) -> list[ast.expr]:
    """Return what `row` is in `for row in rows`: the elements of a list, or `rows` itself, which a tensor is like.

    Empty where that is not told.
    """
    if binding.kind is not BindingKind.ITERATION or binding.value is None or not steps:
        return []
    return _members(module, binding.value, binding.index, steps)


def elements_of(module: Module, node: ast.expr) -> list[ast.expr]:
    """Return what a list is written with and is given later: `net(x)` of `outs.append(net(x))`; or `node` itself."""
    return _elements(module, node, Move.ITERATED, _STEPS)


def entries_at(module: Module, whole: ast.expr, key: object) -> list[ast.expr]:
    """Return what stands under a key of a dictionary, or may stand at a place of a list, that is written out."""
    if isinstance(key, str):
        found = (written_items(module, whole) or {}).get(key)
        return [found] if found is not None else []
    elements = elements_of(module, whole)
    return [] if elements == [whole] else elements


def made_by(module: Module, node: ast.expr, steps: int = _MOST_VIEWS) -> Iterator[ast.Call]:
    """Yield the calls that gave what an expression is, or is a view or an entry of, the last one first.

    `net(x)` comes before `run(net, x)`, a helper that returns it.
    """
    inner: list[ast.expr | None] = []
    if isinstance(node, ast.Name):
        for binding in module.definitions(node):
            inner += taken(module, binding) or [unpacked(binding) or binding.value]
    elif isinstance(node, (ast.Subscript, ast.Attribute)):
        inner = [kept_in(module, node) or node.value]
    elif isinstance(node, ast.IfExp):
        inner = [unless_none(node)] if unless_none(node) is not node else []
    elif isinstance(node, ast.Call):
        if steps and (written := written_out(module, node)) is not node:
            yield from made_by(module, written, steps - 1)
        yield node
        if isinstance(node.func, ast.Attribute) and node.func.attr in rounding_table().keeping:
            inner = [node.func.value]
        elif node.args and identifier(node.func) in _WRAPPING:
            inner = [node.args[0]]
    for part in inner if steps else ():
        if part is not None:
            yield from made_by(module, part, steps - 1)


def _members(module: Module, source: ast.expr, place: Place, steps: int) -> list[ast.expr]:
    """Return what stands at a place of each element of `source`."""
    source, inner = gone_through(module.inference, source, place)
    if inner is None or not steps:
        return []
    if isinstance(source, ast.Call):
        names = module.inference.callees(source)
        if "builtins.zip" in names:
            known = inner and inner[0] < len(source.args)
            return _members(module, source.args[inner[0]], inner[1:], steps) if known else []
        if source.args and any(name in _SAME for name in names):
            return _members(module, source.args[0], inner, steps)
        if identifier(source.func) in _OF_DICTS and isinstance(source.func, ast.Attribute) and not source.args:
            return _of_dict(module, source.func, inner, steps)
    return _at_place(_elements(module, source, Move.ITERATED, steps), inner)


def _of_dict(module: Module, method: ast.Attribute, place: Place, steps: int) -> list[ast.expr]:
    """`for name, out in outs.items()`, `for out in outs.values()`."""
    if method.attr == "items":
        if place[:1] != (1,):
            return []
        place = place[1:]
    return _at_place(_elements(module, method.value, Move.LOOKED_UP, steps), place)


def _elements(module: Module, source: ast.expr, way: Move, steps: int) -> list[ast.expr]:
    if isinstance(source, ast.Name):
        return _of_variable(module, source, way, steps)
    return _written(source) if _is_display(source, way) else [source]


def _is_display(source: ast.expr | None, way: Move) -> bool:
    lists, dicts = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp), (ast.Dict, ast.DictComp)
    return isinstance(source, dicts if way is Move.LOOKED_UP else lists)


def _written(display: ast.expr) -> list[ast.expr]:
    if isinstance(display, (ast.List, ast.Tuple)):
        return display.elts
    if isinstance(display, ast.Dict):
        return display.values
    if isinstance(display, ast.DictComp):
        return [display.value]
    return [display.elt] if isinstance(display, (ast.ListComp, ast.GeneratorExp)) else []


def _of_variable(module: Module, name: ast.Name, way: Move, steps: int) -> list[ast.expr]:
    """Return what a list under a name is written with and is given later; in a loop over lists, of all of them."""
    bindings = module.definitions(name)
    if len(bindings) != 1:
        return [name]
    made = _unwrapped(module, made_here(module, bindings[0]))
    whole = taken(module, bindings[0], steps - 1) or ([made] if made is not None else [])
    if not whole or not all(_is_display(display, way) for display in whole):
        return [name]
    given = put_in(module.index, name.id, bindings[0].scope.node, (way,), listed=way is Move.ITERATED)
    return [
        *(element for display in whole for element in _written(display)),
        *(element for element, further in given if not further),
    ]


def _unwrapped(module: Module, made: ast.expr | None) -> ast.expr | None:
    """Return the generator of `tuple(net(x) for x in rows)`."""
    if (
        isinstance(made, ast.Call)
        and len(made.args) == 1
        and not _SAME_ORDER.isdisjoint(module.inference.callees(made))
    ):
        return made.args[0]
    return made


def _at_place(elements: list[ast.expr], place: Place) -> list[ast.expr]:
    return [part for element in elements if (part := _at(element, place)) is not None]


def _at(element: ast.expr, place: Place) -> ast.expr | None:
    """Return what stands at a place of a tuple that is written out; a whole element stands for itself."""
    for position in place:
        inner = element.elts if isinstance(element, (ast.List, ast.Tuple)) else []
        if not 0 <= position < len(inner):
            return None
        element = inner[position]
    return element
