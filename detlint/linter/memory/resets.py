"""Methods that would initialise the weights of their object, and that nothing calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# By convention a constructor calls it; torch itself never does.
_RESET = "reset_parameters"
_MOST_FILES = 12


def stands_in_forgotten_reset(node: ast.AST, ctx: Context) -> bool:
    """`def reset_parameters(self): nn.init.normal_(self.weight)` of a class whose constructor forgets it, as all do."""
    method, owner = ctx.function(node), ctx.module.index.class_at(node)
    if method is None or owner is None or method.name != _RESET or method not in owner.body:
        return False
    if _may_be_called_in(ctx, owner):
        return False
    files = ctx.module.project.search(_RESET, ctx.module, _MOST_FILES)
    if files is None:
        return True
    others = (path for path in files.found or () if path != ctx.module.path)
    return files.found is not None and not any(
        _may_be_called_in(ctx.elsewhere(ctx.module.project.at(path)), owner) for path in others
    )


def _may_be_called_in(ctx: Context, owner: ast.ClassDef) -> bool:
    return any(_may_call(use, owner, ctx) for use in ctx.module.index.names_used.get(_RESET, ()))


def _may_call(use: ast.AST, owner: ast.ClassDef, ctx: Context) -> bool:
    """May a use of the name mean the method of a class, as `layer.reset_parameters()` may of any layer?

    `self` and `super()` mean that of the class around, or of one that it derives from.
    """
    receiver = use.value if isinstance(use, ast.Attribute) else None
    around = ctx.module.index.class_at(use)
    own = identifier(receiver.func if isinstance(receiver, ast.Call) else receiver) in ("self", "super")
    if not own or around is None:
        return not isinstance(ctx.parent(use), FUNCTIONS)
    return any(info.node is owner for info in ctx.inference.mro(ctx.inference.class_info(around)))
