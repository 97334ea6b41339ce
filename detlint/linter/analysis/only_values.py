"""What a name or an attribute is, where one assignment alone says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.written_here import kept_in, made_here, stands_for
from detlint.linter.source.names import BindingKind

if TYPE_CHECKING:
    from detlint.linter.analysis.project import Module


def only_value(module: Module, node: ast.expr) -> ast.expr | None:
    """Return `partial(f)` for `drop` after `drop = partial(f)`, and for `self.drop`, see `kept_in`.

    None where another assignment may come between.
    """
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        only = bindings[0] if len(bindings) == 1 else None
        return made_here(module, only) if only is not None and only.kind is BindingKind.ASSIGN else None
    kept = kept_in(module, node)
    if kept is None or isinstance(kept, ast.IfExp):  # whether there is anything may be asked
        return kept
    return stands_for(module, kept)
