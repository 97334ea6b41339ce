"""What binary operators give: tensors, arrays, numbers, texts, paths and containers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.values import UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference


def combined(
    inference: Inference, left: tuple[Value, ...], right: tuple[Value, ...], op: ast.operator, node: ast.AST
) -> Iterator[Value]:
    """Yield what an operator makes of two sides."""
    sides = (*left, *right)
    for kind in (Kind.TENSOR, Kind.ARRAY):
        found = [value for value in sides if value.kind is kind]
        if found:
            numbers = [*found, *(value for value in sides if value.kind is Kind.NUMBER)]
            yield inference.made(kind, node, dtype=_arithmetic_dtype(numbers, op))
            return
    kinds = {value.kind for value in sides}
    if isinstance(op, ast.Div) and (any(value.type == "pathlib.Path" for value in sides) or _joins(left, right)):
        yield inference.made(Kind.INSTANCE, node, "pathlib.Path")
    elif kinds == {Kind.NUMBER}:
        yield inference.made(Kind.NUMBER, node, dtype=_arithmetic_dtype(list(sides), op))
    elif isinstance(op, ast.Mod) and {value.kind for value in left} == {Kind.STRING}:
        yield inference.made(Kind.STRING, node)
    elif len(kinds) == 1 and kinds <= {Kind.LIST, Kind.TUPLE, Kind.STRING, Kind.SET}:
        yield inference.made(kinds.pop(), node)
    elif Kind.SET in kinds and isinstance(op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
        yield inference.made(Kind.SET, node)
    else:
        yield UNKNOWN


def _joins(left: tuple[Value, ...], right: tuple[Value, ...]) -> bool:
    """`folder / "samples"`: nothing but a path is divided by text."""
    untyped = all(value.kind is Kind.UNKNOWN and not value.type for value in left)
    return bool(left and right) and untyped and all(value.kind is Kind.STRING for value in right)


def _arithmetic_dtype(operands: list[Value], op: ast.operator) -> str | None:
    dtypes = [value.dtype for value in operands]
    floating = next((value.dtype for value in operands if value.is_floating), None)
    if floating is not None:
        return floating
    if isinstance(op, ast.Div):
        return "float"
    return "int" if dtypes and all(value.is_integral for value in operands) else None
