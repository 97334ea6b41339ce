"""What iterating over a value gives, and what stands at a position of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.made import made_of
from detlint.linter.analysis.values import UNKNOWN, Kind, Value
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module

_VIEWS = ("items", "keys", "values")
_GOING_THROUGH = frozenset({"builtins.enumerate", "builtins.iter", "builtins.reversed", "builtins.zip"})


def goes_through_own(module: Module, node: ast.expr) -> bool:
    """Return whether a variable goes through an attribute of the object: `for part in self.parts`, in a `zip` too."""
    bindings = module.definitions(node) if isinstance(node, ast.Name) else ()
    return bool(bindings) and all(
        binding.kind is BindingKind.ITERATION and binding.value is not None and any(map(is_own, walk(binding.value)))
        for binding in bindings
    )


def elements(inference: Inference, node: ast.expr, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return what iterating over `node`, whose values are `values`, gives."""
    with inference.questions as allowed:
        found = [each for value in values for each in _element(inference, node, value)] if allowed else []
    return tuple(dict.fromkeys(found)) or (UNKNOWN,)


def _element(inference: Inference, node: ast.expr, value: Value) -> Iterator[Value]:
    if value.kind in (Kind.TENSOR, Kind.ARRAY):
        yield inference.made(value.kind, node, dtype=value.dtype)
    elif value.kind in (Kind.LIST, Kind.TUPLE, Kind.SET) and value.elements:
        for element in value.elements:
            yield from element
    elif value.kind is Kind.INSTANCE and value.type.endswith("DataLoader"):
        # A batch: tensors, or a dict or tuple of them.
        yield Value(Kind.TENSOR, "batch", node=node, module=inference.module)
    elif value.kind is Kind.MODULE and isinstance(value.node, ast.Call) and value.module is not None:
        inference = value.module.inference
        for argument in value.node.args:
            starred = isinstance(argument, ast.Starred)
            inner = inference.values(argument.value if isinstance(argument, ast.Starred) else argument)
            listed = starred or value.type == "torch.nn.ModuleList"
            yield from elements(inference, argument, inner) if listed else inner
    elif value.kind is Kind.ITERATOR and isinstance(value.node, ast.Call):
        yield from _iterator_element(inference, value)
    elif value.kind is Kind.ITERATOR and value.elements:
        yield from value.elements[0]
    elif value.kind is Kind.STRING:
        yield inference.made(Kind.STRING, node)
    else:
        yield inference.made(Kind.UNKNOWN, node)


def _iterator_element(inference: Inference, value: Value) -> Iterator[Value]:
    call, module = value.node, value.module
    assert isinstance(call, ast.Call)
    assert module is not None
    inference = module.inference
    names = inference.resolve(call.func)
    arguments = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    inner = [elements(inference, argument, inference.values(argument)) for argument in arguments]
    if "builtins.range" in names:
        yield inference.made(Kind.NUMBER, call, dtype="int")
    elif "builtins.enumerate" in names and inner:
        counter = (inference.made(Kind.NUMBER, call, dtype="int"),)
        yield Value(Kind.TUPLE, node=call, module=module, elements=(counter, inner[0]))
    elif "builtins.zip" in names:
        yield Value(Kind.TUPLE, node=call, module=module, elements=tuple(inner))
    elif value.elements:
        yield from value.elements[0]
    else:
        yield inference.made(Kind.UNKNOWN, call)


def gone_through(
    inference: Inference, source: ast.expr, place: tuple[int, ...]
) -> tuple[ast.expr, tuple[int, ...] | None]:
    """Return what a loop over `source` goes through, and the place of a target in that; None for a running number.

    Seen through progress bars and counters: the target at (1, 0) of `enumerate(tqdm(found))` stands at (0,) in `found`.
    """
    source = _going_through(source, inference)
    while isinstance(source, ast.Call) and source.args:
        names = inference.callees(source)
        if "builtins.enumerate" in names:
            if place[:1] == (0,):
                return source.args[0], None
            place = place[1:]
        elif inference.types.bars.isdisjoint(names):
            break
        source = _going_through(source.args[0], inference)
    return source, place


def _going_through(source: ast.expr, inference: Inference) -> ast.expr:
    """Return `enumerate(rows)` for `numbered` of `numbered = enumerate(rows)`, and any other expression as it is."""
    made = made_of(inference.module, source)
    call = made[0] if len(made) == 1 else None
    if not isinstance(call, ast.Call):
        return source
    names = inference.callees(call)
    views = isinstance(call.func, ast.Attribute) and call.func.attr in _VIEWS and not call.args
    counts = not _GOING_THROUGH.isdisjoint(names) or not inference.types.bars.isdisjoint(names)
    return call if views or counts else source


def item(value: Value, position: int) -> Iterator[Value]:
    """Yield what stands at `position` of a tuple, list or batch."""
    if value.kind in (Kind.TUPLE, Kind.LIST) and len(value.elements) > position >= -len(value.elements):
        yield from value.elements[position]
    elif value.kind in (Kind.LIST, Kind.ITERATOR) and len(value.elements) == 1:
        yield from value.elements[0]
    elif value.kind in (Kind.TENSOR, Kind.ARRAY):
        yield Value(value.kind, node=value.node, module=value.module, dtype=value.dtype)
    elif value.kind is Kind.TUPLE and not value.elements and isinstance(value.node, ast.Attribute):
        yield Value(Kind.NUMBER, dtype="int", node=value.node, module=value.module)
    else:
        yield Value(Kind.UNKNOWN, node=value.node, module=value.module)
