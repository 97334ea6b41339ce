"""Which parts of an expression hand their numbers on to it? Not those that say how large it is, or which of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.numbers.arrays import FILLED
from detlint.linter.source.nodes import arguments_of, identifier
from detlint.linter.tables.rounding import rounding_table

_LIKE = "_like"
_CASTS = ("astype", "to", "type")
_INTEGERS = ("int", "bool", "long", "int16", "int32", "int64")
_FEW_DIGITS = ("fp8", "float8", "int8", "int4", "fp4", "float4")


def walk_values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield an expression and the parts whose numbers are in it, parents first.

    No `x` of `np.zeros(x.shape)`, `len(x)`, `x > 0` or `rows[x]`: these are whole numbers, marks and places.
    """
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        stack += reversed(_inner(part))


def _inner(part: ast.AST) -> list[ast.AST]:
    if isinstance(part, ast.Compare) or identifier(part) in rounding_table().whole:
        return []
    if isinstance(part, ast.Subscript):
        return [part.value]
    if isinstance(part, ast.Call):
        name = identifier(part.func)
        whole = name in rounding_table().whole or name.removesuffix(_LIKE) in FILLED
        made_whole = name in _CASTS and any(_is_of_few_digits(given) for given in arguments_of(part))
        return [] if whole or made_whole else list(ast.iter_child_nodes(part))
    return list(ast.iter_child_nodes(part))


def _is_of_few_digits(dtype: ast.expr) -> bool:
    """`torch.long`, `fp8_dtype`: whole numbers, and floats of so few digits that their sums come out exact."""
    name = identifier(dtype)
    return name in _INTEGERS or any(word in name for word in _FEW_DIGITS)
