"""How does a test end after its name is set to a constant: `if best is None` after `best = None`?"""

from __future__ import annotations

import ast

from detlint.linter.source.names import Binding, BindingKind

_SAME, _OTHER = (ast.Is, ast.Eq), (ast.IsNot, ast.NotEq)


def name_tested(test: ast.expr) -> str:
    """Return `first` of `first`, `best` of `best is None`; nothing of other tests."""
    if isinstance(test, ast.Compare):
        plain = len(test.ops) == 1 and isinstance(test.ops[0], (*_SAME, *_OTHER)) and _is_flag(test.comparators[0])
        test = test.left if plain else test
    return test.id if isinstance(test, ast.Name) else ""


def truth_after(test: ast.expr, binding: Binding) -> bool | None:
    """Return the outcome of a test of `name_tested` after a binding of that name; None where it tells none."""
    value = binding.value
    if binding.kind is not BindingKind.ASSIGN or binding.index or not _is_flag(value):
        return None
    assert isinstance(value, ast.Constant)
    if not isinstance(test, ast.Compare):
        return bool(value.value)
    asked = test.comparators[0]
    return (isinstance(asked, ast.Constant) and asked.value is value.value) is isinstance(test.ops[0], _SAME)


def _is_flag(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
