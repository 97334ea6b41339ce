"""Does code prepare data? Data sets, transforms and loaders work on the CPU, and nobody asks for a gradient there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def prepares_data(node: ast.AST, ctx: Context) -> bool:
    """Return whether the class or the module around `node` says so; a layer is none of it, whatever its name."""
    owner = ctx.module.index.class_at(node)
    if owner is not None and _is_layer(owner, ctx):
        return False
    return (owner is not None and _is_data_class(owner, ctx)) or in_data_module(ctx)


def in_data_module(ctx: Context) -> bool:
    """Return whether the file stands among those that prepare data."""
    return any(gradient_table().data_modules.match(part) for part in ctx.module.name.split("."))


def _is_layer(owner: ast.ClassDef, ctx: Context) -> bool:
    """A transform that is called its own way and has no `forward` is none, though it derives from `nn.Module`."""
    if not ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return False
    classes = ctx.inference.mro(ctx.inference.class_info(owner))
    own_way = any("__call__" in info.methods for info in classes)
    return not own_way or any("forward" in info.methods for info in classes)


def _is_data_class(owner: ast.ClassDef, ctx: Context) -> bool:
    info = ctx.inference.class_info(owner)
    names = [ancestor.node.name for ancestor in ctx.inference.mro(info)]
    return any(gradient_table().data_classes.search(name) for name in (*names, *ctx.inference.external_bases(info)))
