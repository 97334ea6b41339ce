"""What a name or an attribute is, where one assignment alone says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.project import Module


def only_value(module: Module, node: ast.expr) -> ast.expr | None:
    """Return `partial(f)` for `drop` after `drop = partial(f)`, and for `self.drop` where its class sets that once.

    None where another assignment may come between, or the class stands in another file.
    """
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        only = bindings[0] if len(bindings) == 1 else None
        return unpacked(only) if only is not None and only.kind is BindingKind.ASSIGN else None
    owner = module.index.class_at(node) if is_own(node) else None
    if owner is None or not isinstance(node, ast.Attribute):
        return None
    writes = list(module.inference.attribute_writes(module.inference.class_info(owner), node.attr))
    if len(writes) != 1 or writes[0][0].module is not module or writes[0][1].index:
        return None
    return writes[0][1].value
