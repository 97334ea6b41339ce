"""On which lines does a statement stand? Of one with a body, those of its header."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

_Part = ast.stmt | ast.excepthandler | ast.match_case
_PARTS = (ast.stmt, ast.excepthandler, ast.match_case)


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """The lines of a statement, decorators included. Before `last`, `end` is the last line that holds code of it."""

    first: int
    end: int
    last: int


class Statements:
    """The extents of all statements of a file."""

    def __init__(self, tree: ast.Module) -> None:
        found = []
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            children = list(ast.iter_child_nodes(node))
            parts = [child for child in children if isinstance(child, _PARTS)]
            pending += parts
            if isinstance(node, _PARTS):
                code = [child for child in children if not isinstance(child, _PARTS)]
                found.append(_extent(node, code, parts))
        self._extents = sorted(found)

    @cached_property
    def _at(self) -> dict[int, Extent]:
        return _innermost((extent, extent.last) for extent in self._extents)

    @cached_property
    def _holding_code(self) -> dict[int, Extent]:
        return _innermost((extent, extent.end) for extent in self._extents)

    def at(self, line: int) -> Extent | None:
        """Return the innermost statement that has code on a line, or a comment after code."""
        return self._at.get(line)

    def after(self, line: int) -> Extent | None:
        """Return the statement that a comment alone on its line belongs to: the one around it, or else the next."""
        around = self._holding_code.get(line)
        if around is not None:
            return around
        index = bisect_left(self._extents, Extent(line, 0, 0))
        return self._extents[index] if index < len(self._extents) else None


def _innermost(extents: Iterable[tuple[Extent, int]]) -> dict[int, Extent]:
    """Return for each line the shortest statement on it, each counted to the line given with it."""
    found: dict[int, tuple[int, Extent]] = {}
    for extent, last in extents:
        for line in range(extent.first, last + 1):
            if line not in found or last - extent.first < found[line][0]:
                found[line] = (last - extent.first, extent)
    return {line: extent for line, (_, extent) in found.items()}


def _extent(node: _Part, code: list[ast.AST], parts: list[_Part]) -> Extent:
    first = _first_line(node)
    if not parts:
        end = getattr(node, "end_lineno", None) or first
        return Extent(first, end, end)
    end = max([getattr(child, "end_lineno", None) or first for child in code], default=first)
    end = max(end, getattr(node, "lineno", first))
    body = min(_first_line(part) for part in parts)
    return Extent(first, end, max(end, body - 1))


def _first_line(node: _Part) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.lineno
