"""What shows that a gradient flows through code: a layer or a loss around it, a training step, layers beside it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.programs.training import trains
from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

_LOSS = re.compile(r"loss|criterion", re.IGNORECASE)


def is_shown_to_train(node: ast.AST, ctx: Context) -> bool:
    """Return whether code stands in a layer, a loss, or what makes training steps, or in a file of layers."""
    around = [part for part in ctx.module.index.ancestors(node) if isinstance(part, (*FUNCTIONS, ast.ClassDef))]
    if any(part.name == "forward" or _LOSS.search(part.name) or trains(part) for part in around):
        return True
    if any(
        isinstance(part, ast.ClassDef) and ctx.inference.is_module_class(ctx.module.qualified(part)) for part in around
    ):
        return True
    return ctx.module.project.once(defines_network, ctx.module)


def defines_network(module: Module) -> bool:
    """Return whether a file holds a layer that can be run."""
    classes = (info for info in module.classes.values() if "forward" in info.methods)
    return any(module.inference.is_module_class(info.name) for info in classes)
