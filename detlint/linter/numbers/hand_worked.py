"""Numbers worked out by hand with several roundings: `(1.0 / 1.0 + 2.0 / 3.0) / 2.0`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from detlint.linter.analysis.project import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.numbers.written_results import written_as
from detlint.linter.source.nodes import arguments_of

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# One rounding more than what a division of two counts makes of them.
_FEW = 2
_DEPTH = 8


def is_worked_by_hand(module: Module, node: ast.expr) -> bool:
    """Return whether a number is written as arithmetic that rounds more than once."""
    node = written_as(module, node)
    worked = _worked(node) if isinstance(node, ast.BinOp) else None
    return worked is not None and worked[1] >= _FEW


def is_written_out(module: Module, node: ast.expr) -> bool:
    """`(0.7, 0.15, 0.15)`, `4.0 * scale` with `scale = 1.5`: nothing but numbers."""
    node = _filled_in(module, node)
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_written_out(module, element) for element in node.elts)
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) or _worked(node) is not None


def exact_number(module: Module, node: ast.expr) -> float | None:
    """Return what arithmetic on numbers gives without rounding, `6.0` of `4.0 * scale` with `scale = 1.5`, or None."""
    worked = _worked(_filled_in(module, node))
    return worked[0] if worked is not None and not worked[1] else None


def _filled_in(module: Module, node: ast.expr, depth: int = _DEPTH) -> ast.expr:
    """Return arithmetic with what its names stand for."""
    node = written_as(module, node)
    if not isinstance(node, ast.BinOp) or not depth:
        return node
    left, right = (_filled_in(module, side, depth - 1) for side in (node.left, node.right))
    return ast.BinOp(left, node.op, right)


def is_made_of_tensors(module: Module, node: ast.expr) -> bool:
    """`average_precision(outputs, targets)`, of tensors: it does not count in Python's own floats."""
    call = written_as(module, node)
    return isinstance(call, ast.Call) and any(
        value.kind is Kind.TENSOR for part in arguments_of(call) for value in module.inference.values(part)
    )


def _worked(node: ast.expr) -> tuple[float, int] | None:
    """Return what arithmetic on numbers gives, and how often it rounds on the way."""
    try:
        if isinstance(node, ast.Constant):
            value = node.value
            return (float(value), 0) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
            return None
        left, right = _worked(node.left), _worked(node.right)
        if left is None or right is None:
            return None
        work = _OPERATORS[type(node.op)]
        number, exact = work(left[0], right[0]), work(Fraction(left[0]), Fraction(right[0]))
        return number, left[1] + right[1] + (Fraction(number) != exact)
    except (ArithmeticError, ValueError):
        return None  # greater than a float can be, or divided by zero
