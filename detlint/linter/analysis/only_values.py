"""What a name or an attribute is, where one assignment alone says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.written_here import kept_in, made_here, written_out
from detlint.linter.source.names import BindingKind, element_at
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module


def only_value(module: Module, node: ast.expr) -> ast.expr | None:
    """Return `partial(f)` for `drop` after `drop = partial(f)`, and for `self.drop`, see `kept_in`.

    So after `drop = partial(f) if wanted else None`, or where a helper returns it. None where another assignment may
    come between.
    """
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        only = bindings[0] if len(bindings) == 1 else None
        return made_here(module, only) if only is not None and only.kind is BindingKind.ASSIGN else None
    kept = kept_in(module, node)
    return written_out(module, kept) if kept is not None else None


def set_once(module: Module, node: ast.expr) -> ast.expr | None:
    """Return what a name is set to as it is written, with what decides whether there is any: `f() if wanted else None`.

    So for `self.drop` where its class sets that once. None where another assignment may come between, or the class
    stands in another file.
    """
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        only = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN else None
        return element_at(only.value, only.index) if only is not None else None
    owner = module.index.class_at(node) if is_own(node) else None
    if owner is None or not isinstance(node, ast.Attribute):
        return None
    writes = list(module.inference.attribute_writes(module.inference.class_info(owner), node.attr))
    if len(writes) != 1 or writes[0][0].module is not module:
        return None
    return element_at(writes[0][1].value, writes[0][1].index)
