"""Layers of other libraries that classes of the project derive from, and what those hand to their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.source.nodes import walk


def constructions(layer: str, node: ast.AST, ctx: Context) -> Iterator[tuple[ast.Call, Context]]:
    """Yield each `super().__init__(…)` that builds `layer`, in the class around `node` or in one of its parents."""
    names = {f"{name}.__init__" for name in (layer, ctx.inference.canonical(layer))}
    for info in _classes(node, ctx):
        method = info.methods.get("__init__")
        inside = ctx.elsewhere(info.module)
        for part in walk(method) if method is not None else ():
            named = isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "__init__"
            if isinstance(part, ast.Call) and named and names.intersection(inside.callees(part)):
                yield part, inside


def overrides(layer: str, method: str, node: ast.AST, ctx: Context) -> bool:
    """Return whether the class around `node`, or a parent of it in the project, has a method of that name.

    The layer itself is such a parent in the project that makes it: that is the method that others override.
    """
    itself = {layer, ctx.inference.canonical(layer)}
    return any(method in info.methods for info in _classes(node, ctx) if info.name not in itself)


def _classes(node: ast.AST, ctx: Context) -> tuple[ClassInfo, ...]:
    owner = ctx.module.index.class_at(node)
    return ctx.inference.mro(ctx.inference.class_info(owner)) if owner is not None else ()
