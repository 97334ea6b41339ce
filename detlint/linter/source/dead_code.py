"""Statements that never run: those after a `return` or a `raise` in their block, and the body of `if False:`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.source.nodes import walk

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_BLOCKS = ("body", "orelse", "finalbody")


def dead_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a file that nothing leads to, but for those inside others."""
    for node in walk(tree):
        for block in _BLOCKS:
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                left = [place for place, each in enumerate(statements) if isinstance(each, _LEAVING)]
                yield from statements[left[0] + 1 :] if left else ()
        if isinstance(node, (ast.If, ast.While)) and isinstance(node.test, ast.Constant) and not node.test.value:
            yield from node.body
