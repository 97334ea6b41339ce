"""Is one of a list of spare buffers taken, or else a new one made? Nobody has written the new one, so any will do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.made import made_of
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_MOST_STEPS = 4  # through names and calls, which may lead back to themselves


def is_taken_for_new_memory(taken: ast.expr, module: Module) -> bool:
    """`pool.pop() if pool else torch.empty(size)`: whoever may get memory that holds anything goes by nothing in it."""
    return any(_is_unwritten(other, module, _MOST_STEPS) for other in _instead(taken, module))


def _instead(taken: ast.expr, module: Module) -> Iterator[ast.expr]:
    """Yield what a value is where it is not taken: in an expression, or as the same name in the other branch."""
    parent = module.index.parents.get(taken)
    if isinstance(parent, ast.IfExp):
        yield parent.orelse if taken is parent.body else parent.body
    if not isinstance(parent, ast.Assign):
        return
    around = module.index.parents.get(parent)
    others: list[ast.stmt] = []
    if isinstance(around, ast.If):
        others = around.orelse if parent in around.body else around.body
    elif isinstance(around, ast.Try):
        others = [statement for handler in around.handlers for statement in handler.body]
    target = ast.unparse(parent.targets[0])
    for other in others:
        if isinstance(other, ast.Assign) and ast.unparse(other.targets[0]) == target:
            yield other.value


def _is_unwritten(node: ast.expr, module: Module, steps: int) -> bool:
    if not steps:
        return False
    if isinstance(node, ast.Name):
        made = made_of(module, node)
        written = any(_writes(use, module) for use in module.index.uses_of(node))
        return not written and any(each is not None and _is_unwritten(each, module, steps - 1) for each in made)
    if not isinstance(node, ast.Call):
        return False
    names = module.inference.callees(node)
    if not order_table().functions["unwritten"].isdisjoint(names):
        return True
    definitions = [module.project.definition(name) for name in names]
    return any(
        _is_unwritten(returned.value, where, steps - 1)
        for where, function in filter(None, definitions)
        if isinstance(function, FUNCTIONS)
        for returned in where.flow(where.index.scopes[function]).returns()
        if returned.value is not None
    )


def _writes(use: ast.AST, module: Module) -> bool:
    """`buffer.zero_()`, `buffer[:] = 0`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Subscript):
        return parent.value is use and isinstance(parent.ctx, ast.Store)
    return isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
