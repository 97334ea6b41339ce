"""What is told to be apart by no more than so much? `a` and `b` of `(a - b).abs().max()`."""

from __future__ import annotations

import ast

from detlint.linter.analysis.project import Module
from detlint.linter.source.names import unpacked
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_STEPS = 10
_TWO_SIDED = ("dist", "sub", "subtract", "ne", "not_equal")


def difference(module: Module, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides of `(a - b).abs().max()`, `torch.dist(a, b)`, `(a != b).sum()`, or None."""
    sizes = rounding_table().sizes
    for _ in range(_STEPS):
        inner: ast.expr | None = None
        if isinstance(node, ast.BinOp):
            return (node.left, node.right) if isinstance(node.op, ast.Sub) else None
        if isinstance(node, ast.Compare):
            return (node.left, node.comparators[0]) if isinstance(node.ops[0], ast.NotEq) else None
        if isinstance(node, ast.Name):
            found = module.definitions(node)
            inner = unpacked(found[0]) if len(found) == 1 else None
        elif isinstance(node, ast.Call):
            name = identifier(node.func)
            method = isinstance(node.func, ast.Attribute) and not module.inference.resolve(node.func.value)
            parts = [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]
            if name in _TWO_SIDED and len(parts) > 1:
                return parts[0], parts[1]
            inner = parts[0] if name in sizes and parts else None
        if inner is None:
            return None
        node = inner
    return None
