"""Which parts of an expression hand their numbers on to it? Not those that say how large it is, or which of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.numbers.arrays import FILLED
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_LIKE = "_like"


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
        return [] if whole else list(ast.iter_child_nodes(part))
    return list(ast.iter_child_nodes(part))
