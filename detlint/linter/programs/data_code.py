"""Does code prepare data? Data sets, transforms and loaders work on the CPU, and nobody asks for a gradient there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.programs.training import trains
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import walk
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def prepares_data(node: ast.AST, ctx: Context) -> bool:
    """Return whether the class or the module around `node` says so; a layer is none of it, nor is a part of one."""
    owner = ctx.module.index.class_at(node)
    if owner is not None and (_is_layer(owner, ctx) or (_is_data_class(owner, ctx) and _is_part_of_layer(owner, ctx))):
        return False
    return (owner is not None and _is_data_class(owner, ctx)) or in_data_module(node, ctx)


def in_data_module(node: ast.AST, ctx: Context) -> bool:
    """Return whether the file stands among those that prepare data; a function in it that trains does not."""
    function = ctx.function(node)
    named = any(map(gradient_table().data_modules.match, ctx.module.name.split(".")))
    return named and (function is None or not _works_with_model(function))


def _works_with_model(function: FunctionNode) -> bool:
    """Does a function train, or switch a model to do so, or to test it: `model.eval()`?"""
    calls = (part.func for part in walk(function) if isinstance(part, ast.Call) and not part.args)
    switches = any(isinstance(called, ast.Attribute) and called.attr in ("train", "eval") for called in calls)
    return switches or trains(function)


def _is_layer(owner: ast.ClassDef, ctx: Context) -> bool:
    """A transform that is called its own way and has no `forward` is none, though it derives from `nn.Module`."""
    if not ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return False
    classes = ctx.inference.mro(ctx.inference.class_info(owner))
    own_way = any("__call__" in info.methods for info in classes)
    return not own_way or any("forward" in info.methods for info in classes)


def _is_part_of_layer(owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.resize = Resize("bilinear")` in a network, which calls it on the way."""
    for where, call in filter(None, calls_of(owner, ctx)):
        around = where.module.index.class_at(call)
        if isinstance(where.parent(call), ast.Assign) and around is not None and _is_layer(around, where):
            return True
    return False


def _is_data_class(owner: ast.ClassDef, ctx: Context) -> bool:
    info = ctx.inference.class_info(owner)
    names = [ancestor.node.name for ancestor in ctx.inference.mro(info)]
    return any(gradient_table().data_classes.search(name) for name in (*names, *ctx.inference.external_bases(info)))
