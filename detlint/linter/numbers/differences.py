"""What is told to be apart by no more than so much? `a` and `b` of `(a - b).abs().max()`."""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.written_here import made_here
from detlint.linter.numbers.given_to_helpers import unviewed
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_STEPS = 10
_TWO_SIDED = ("dist", "sub", "subtract", "ne", "not_equal")


def difference(module: Module, node: ast.expr, steps: int = _STEPS) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides of `(a - b).abs().max()`, `torch.dist(a, b)`, `(a != b).sum()`, or None."""
    sizes = rounding_table().sizes
    for left in reversed(range(steps)):
        inner: ast.expr | None = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            inner = node.left
        elif isinstance(node, ast.BinOp):
            return (node.left, node.right) if isinstance(node.op, ast.Sub) else None
        elif isinstance(node, ast.Compare):
            return (node.left, node.comparators[0]) if isinstance(node.ops[0], ast.NotEq) else None
        elif isinstance(node, ast.Name):
            found = module.definitions(node)
            inner = made_here(module, found[0]) if len(found) == 1 else None
        elif isinstance(node, ast.Call):
            name = identifier(node.func)
            method = isinstance(node.func, ast.Attribute) and not module.inference.resolve(node.func.value)
            parts = [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]
            if name in _TWO_SIDED and len(parts) > 1:
                return parts[0], parts[1]
            if name not in sizes:
                return _told_by_helper(module, node, left)
            inner = parts[0] if name in sizes and parts else None
        if inner is None:
            return None
        node = inner
    return None


def _told_by_helper(module: Module, call: ast.Call, steps: int) -> tuple[ast.expr, ast.expr] | None:
    """Return `x` and `y` of `largest_error(x, y)`, a function of the project that gives the size of `a - b`."""
    for owner, function in functions_called(module.inference, call):
        returned = made_results(owner, function)
        apart = difference(owner, returned[0], steps) if len(returned) == 1 and returned[0] is not None else None
        method = isinstance(call.func, ast.Attribute)
        names = [side.id for side in map(unviewed, apart or ()) if isinstance(side, ast.Name)]
        given = [argument_of(function, name, call, skip_self=method) for name in names]
        if len(given) == 2 and given[0] is not None and given[1] is not None:
            return given[0], given[1]
    return None
