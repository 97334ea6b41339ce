"""Whose is an attribute that is named: an object's of one class and its kin, or of another class?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.values import Kind
from detlint.linter.memory.hooks import asked_for, is_for_layers_of_torch, takes_a_model
from detlint.linter.memory.layers import held_parts, holds_layers_of_torch
from detlint.linter.source.nodes import identifier, is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context


def is_of_another(node: ast.Attribute, owner: ClassInfo, ctx: Context) -> bool:
    """`self.weight` in another class, `self.linear.weight` in its own, and elsewhere where that is another layer."""
    around = ctx.module.index.class_at(node)
    if is_own(node):
        return not is_kin(around, owner, ctx)
    if isinstance(user := ctx.parent(node), ast.Call) and user.func is node:
        return True  # `x.mean(0)` is a method
    if around is owner.node and held_parts(node.value, ctx):
        return True
    if _holds_another(node.value, owner, ctx) or _asks_for_another(node, owner, ctx):
        return True
    function = ctx.function(node)
    return function is not None and takes_a_model(function, ctx) and is_for_layers_of_torch(function.body, ctx)


def _holds_another(node: ast.expr, owner: ClassInfo, ctx: Context) -> bool:
    """Is a module known, of torch or of a class that is no kin?"""
    if holds_layers_of_torch(node, ctx):
        return True
    values = [value for value in ctx.values(node) if value.kind is not Kind.NONE]
    classes = [ctx.inference.class_named(value.type) for value in values if value.kind is Kind.MODULE]
    return len(classes) == len(values) > 0 and not any(each is None or _are_kin(each, owner) for each in classes)


def _asks_for_another(node: ast.Attribute, owner: ClassInfo, ctx: Context) -> bool:
    """`m.weight` under `if isinstance(m, LayerNorm)`, of which the class is no kind."""
    inference = ctx.inference
    outside = inference.external_bases(owner)
    for names in asked_for(node, ctx):
        classes = [inference.class_named(name) for name in names]
        kin = any(each is not None and _are_kin(each, owner) for each in classes)
        if not kin and "" not in names and not any(name in outside for name in names):
            return True
    return False


def is_inherited(node: ast.ClassDef | None, owner: ClassInfo, ctx: Context) -> bool:
    """Is a class the same, or one that it inherits from?"""
    return node is not None and ctx.inference.class_info(node) in ctx.inference.mro(owner)


def is_kin(node: ast.ClassDef | None, owner: ClassInfo, ctx: Context) -> bool:
    """Return whether one of two classes inherits from the other, or they are the same."""
    return node is not None and _are_kin(ctx.inference.class_info(node), owner)


def _are_kin(one: ClassInfo, other: ClassInfo) -> bool:
    """Return whether one of two classes inherits from the other, or they are the same."""
    return one in other.module.inference.mro(other) or other in one.module.inference.mro(one)


def is_overridden(node: ast.Attribute, owner: ClassInfo, ctx: Context) -> bool:
    """Does an attribute stand in a method of a base class that the class has anew, and does not call from there?"""
    function, around = ctx.function(node), ctx.module.index.class_at(node)
    lineage = ctx.inference.mro(owner)
    info = ctx.inference.class_info(around) if around is not None else None
    if function is None or info not in lineage:
        return False
    anew = [each.methods.get(function.name) for each in lineage[: lineage.index(info)]]
    methods = [method for method in anew if method is not None]
    return bool(methods) and not any(identifier(part) == function.name for part in walk(methods[0]))


def is_replaced(node: ast.Attribute, owner: ClassInfo, made: ast.AST, ctx: Context) -> bool:
    """Is an attribute set in the constructor of a base class, which runs before the class's own makes the memory?"""
    setting, making, around = ctx.function(node), ctx.function(made), ctx.module.index.class_at(node)
    if around is None or setting is None or making is None or not setting.name == making.name == "__init__":
        return False
    calls = (part for part in walk(making) if isinstance(part, ast.Attribute) and part.attr == setting.name)
    inherited = ctx.inference.class_info(around) in ctx.inference.mro(owner)[1:]
    return inherited and any(ctx.line(call) < ctx.line(made) for call in calls)
