"""Statements that turn gradients off: `layer.requires_grad_(False)`, `weight.requires_grad = False`."""

from __future__ import annotations

import ast

from detlint.linter.programs.gradients_off import is_given
from detlint.linter.source.nodes import identifier

ATTRIBUTE = "requires_grad"
METHOD = "requires_grad_"


def is_turned_off(call: ast.expr) -> bool:
    """Return whether an expression is `layer.requires_grad_(False)`."""
    return isinstance(call, ast.Call) and identifier(call.func) == METHOD and is_given(call, False)


def turns_gradients_off(statement: ast.stmt) -> bool:
    """Return whether a statement is `weight.requires_grad = False`, or `weight.requires_grad_(False)`."""
    if isinstance(statement, ast.Assign):
        off = isinstance(statement.value, ast.Constant) and statement.value.value is False
        return off and all(identifier(target) == ATTRIBUTE for target in statement.targets)
    return isinstance(statement, ast.Expr) and is_turned_off(statement.value)
