"""Statements that never run: after a `return` or a `raise`, under `if False:`, in a test that is given no values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, walk

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
        if isinstance(node, (ast.If, ast.While, *FUNCTIONS)) and _is_never_entered(node):
            yield from node.body


def _is_never_entered(node: ast.If | ast.While | FunctionNode) -> bool:
    if isinstance(node, FUNCTIONS):
        return any(map(_gives_no_values, node.decorator_list))
    return isinstance(node.test, ast.Constant) and not node.test.value


def _gives_no_values(decorator: ast.expr) -> bool:
    """`@pytest.mark.parametrize("x, y", [])`."""
    if not isinstance(decorator, ast.Call) or identifier(decorator.func) != "parametrize":
        return False
    values = next(iter(decorator.args[1:2]), None)
    return isinstance(values, (ast.List, ast.Tuple)) and not values.elts
