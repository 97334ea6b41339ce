"""What the control-flow graph of a body is made of: its statements, in the order in which they are evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from detlint.linter.analysis.conditions import Condition, condition_of


class Block:
    """One simple statement, or the part of a compound one that is evaluated at once (a test, an iterable)."""

    def __init__(self, number: int, nodes: Iterable[ast.AST]) -> None:
        self.number = number
        self.nodes = tuple(nodes)
        # Each edge: block it leads to, and the truth of this block's condition along it (None: either).
        self.successors: list[tuple[Block, bool | None]] = []
        self.test: ast.expr | None = None  # what the edges with a truth go by

    @cached_property
    def condition(self) -> Condition | None:
        return None if self.test is None else condition_of(self.test)


def order_of(node: ast.AST) -> tuple[int, int, int]:
    """Sort key of evaluation inside one block: an expression is done when its last part is."""
    if isinstance(node, ast.Assign):
        # The target is written after the value was computed.
        return (node.end_lineno or 0, (node.end_col_offset or 0) + 1, 0)
    end = (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)
    return (*end, 0)


def constant_truth(test: ast.expr) -> bool | None:
    return bool(test.value) if isinstance(test, ast.Constant) else None
