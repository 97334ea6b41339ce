"""Statements that never run: after a `return`, under `if False:`, in a test without values, in an unused function."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, walk

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_BLOCKS = ("body", "orelse", "finalbody")
# What finds a function by its name as text.
_REFLECTING = frozenset({"locals", "globals", "vars", "eval", "exec", "inspect"})


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
        if isinstance(node, FUNCTIONS):
            for unused in _unused_functions(node):
                yield from unused.body


def _unused_functions(around: FunctionNode) -> Iterator[FunctionNode]:
    """Yield the functions inside a function that it never reads, as nobody else can; but by itself one may be."""
    local = [node for node in around.body if isinstance(node, FUNCTIONS) and not node.decorator_list]
    read = _read_within(around) if local else Counter[str]()
    if _REFLECTING.isdisjoint(read):
        yield from (each for each in local if read[each.name] == _read_within(each)[each.name])


def _read_within(function: FunctionNode) -> Counter[str]:
    """Count the names that are read in a function, or are none of its own: `global compare`."""
    parts = list(walk(function))
    outer = (name for part in parts if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names)
    read = (part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))
    return Counter([*read, *outer])


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
