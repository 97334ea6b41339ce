"""What operators and plain functions give for constants; `MISSING` for what is not known, and for what would raise."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from detlint.linter.analysis.context import MISSING

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda item, held: item in held,
    ast.NotIn: lambda item, held: item not in held,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPUTED: dict[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_TEXT_METHODS = frozenset({"casefold", "endswith", "lower", "startswith", "strip", "upper"})
_FUNCTIONS: dict[str, Callable[[Any], object]] = {"bool": bool, "float": float, "int": int, "len": len, "str": str}


def compared(test: ast.cmpop, left: object, right: object) -> bool | None:
    """Return the outcome of `left == right` and the like, None where it is not known."""
    found = _tried(_COMPARED[type(test)], left, right)
    return None if found is MISSING else bool(found)


def computed(op: ast.operator, left: object, right: object) -> object:
    """Return `left + right` and the like, of numbers."""
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    return _tried(_COMPUTED.get(type(op)), left, right) if numbers else MISSING


def of_text(text: object, method: str, given: Sequence[object]) -> object:
    """Return `text.lower()`, `text.startswith("batch")`."""
    return _tried(getattr(text, method), *given) if isinstance(text, str) and method in _TEXT_METHODS else MISSING


def converted(function: str, given: Sequence[object]) -> object:
    """Return `bool(0.1)`, `len((1, 2))`."""
    return _tried(_FUNCTIONS.get(function), *given) if len(given) == 1 else MISSING


def _tried(function: Callable[..., object] | None, *given: object) -> object:
    if function is None or any(value is MISSING for value in given):
        return MISSING
    try:
        return function(*given)
    except (ArithmeticError, TypeError, ValueError):
        return MISSING
