"""What a branch settles about a name: inside `if mode == "reflect":` the mode is that."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def settled(node: ast.expr, ctx: Context) -> ast.Constant | None:
    """Return the literal that a name or attribute was compared with by a condition around it, in its function."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    written = ast.unparse(node)
    child: ast.AST = node
    for parent in ctx.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return None
        if isinstance(parent, ast.If) and child in parent.body:
            literal = _compared(parent.test, written)
            if literal is not None:
                return literal
        child = parent
    return None


def _compared(test: ast.expr, written: str) -> ast.Constant | None:
    """`mode == "reflect"`, alone or as one of several conditions that must hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((found for part in test.values if (found := _compared(part, written))), None)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    literal = test.comparators[0]
    return literal if isinstance(literal, ast.Constant) and ast.unparse(test.left) == written else None
