"""What is read of a record, `found` of `found = listed(folder)`, in which an order stands under some keys?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.made import target_of
from detlint.linter.order.form import entry_key
from detlint.linter.order.questions import OrderQuestions
from detlint.linter.source.names import FUNCTIONS


def parts_read(record: ast.expr, keys: frozenset[str], tracer: OrderQuestions) -> list[ast.expr] | None:
    """Return what is read under `keys`, and the record itself where all of it may be; None where nobody can tell."""
    if not isinstance(tracer.index.parents.get(tracer.index.with_choice(record)), ast.Assign):
        return list(_part_read(record, keys, tracer))
    target = target_of(record, tracer.index)
    binding = tracer.binding_of(target) if isinstance(target, ast.Name) else None
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return None
    uses = tracer.module.flow(binding.scope).uses(binding)
    return [part for use in uses for part in _part_read(use, keys, tracer)]


def _part_read(record: ast.expr, keys: frozenset[str], tracer: OrderQuestions) -> Iterator[ast.expr]:
    """Yield `found.names` of that key, nothing of `found.sizes`; of a method that may read anything the record."""
    item = tracer.index.parents.get(record)
    key = entry_key(item) if isinstance(item, (ast.Attribute, ast.Subscript)) and item.value is record else None
    if key is None or not isinstance(item, (ast.Attribute, ast.Subscript)):
        yield record
    elif isinstance(item.ctx, ast.Load) and key in keys:
        yield item
    elif isinstance(item, ast.Attribute) and _runs_method(item, tracer):
        yield record


def _runs_method(item: ast.Attribute, tracer: OrderQuestions) -> bool:
    """`found.describe()`, `found.names` of a property."""
    call = tracer.index.parents.get(item)
    if isinstance(call, ast.Call) and call.func is item:
        return True
    classes = (tracer.inference.class_named(value.type) for value in tracer.inference.values(item.value))
    infos = (each for info in classes if info is not None for each in tracer.inference.mro(info))
    return any(item.attr in info.methods for info in infos)
