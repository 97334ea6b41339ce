"""What does a class of the project hash its objects by, where it says so itself?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from detlint.linter.analysis.element_sort import Move, Steps
from detlint.linter.order.declared import is_record
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo

Part = tuple[ast.expr, Steps]
_HASHES = frozenset({"hash", "id", "__hash__"})  # numbers that are as salted as what they are made of
_COLLECTING = frozenset({"tuple", "frozenset"})


def hashes_itself(info: ClassInfo) -> bool:
    """Does a class say how it is hashed, or is it a data class, which goes by its fields?"""
    declares = any(isinstance(part, ast.AnnAssign) for part in info.node.body)
    return "__hash__" in info.methods or declares or is_record(info)


def hashed_parts(info: ClassInfo) -> list[Part]:
    """Return what `__hash__` makes its number of, and the way into it; nothing where that cannot be told."""
    method = info.methods.get("__hash__")
    if method is None:
        return []
    returned = info.module.flow(info.module.index.scopes[method]).returns()
    return _all_of(_parts(each.value) for each in returned) or []


def _parts(node: ast.expr | None) -> list[Part] | None:
    """`hash((self.row, self.column))`, `31 * hash(self.row) + hash(self.column)`; None for what is not known."""
    if isinstance(node, ast.Constant):
        return []
    if isinstance(node, ast.BinOp):
        return _all_of(map(_parts, (node.left, node.right)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash" and node.args:
        return _within(node.args[0])
    return None


def _within(hashed: ast.expr) -> list[Part] | None:
    if isinstance(hashed, ast.Tuple):
        return _all_of(map(_within, hashed.elts))
    if isinstance(hashed, ast.Call) and identifier(hashed.func) == "hash":
        return _parts(hashed)
    if any(isinstance(part, ast.Call) and identifier(part.func) in _HASHES for part in ast.walk(hashed)):
        return None
    if isinstance(hashed, ast.Call) and identifier(hashed.func) in _COLLECTING and len(hashed.args) == 1:
        return [(hashed.args[0], (Move.ITERATED,))]
    return [(hashed, ())]


def _all_of(found: Iterable[list[Part] | None]) -> list[Part] | None:
    """Return the parts of all; None if those of one are not known."""
    parts: list[Part] = []
    for each in found:
        if each is None:
            return None
        parts += each
    return parts
