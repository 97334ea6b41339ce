"""Layers of other libraries that classes of the project derive from, and what those hand to their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.source.nodes import identifier, is_own, walk

# What projects call that bring kernels of their own.
_KERNEL = "torch.autograd.Function.apply"


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


def replaces_forward(layer: str, node: ast.AST, ctx: Context) -> bool:
    """Has the class around `node` a `forward` of its own that calls nothing of the package which the layer is from?

    Who computes that with another library took over the weights and no operator.
    """
    owner = ctx.module.index.class_at(node)
    forward = ctx.inference.class_info(owner).methods.get("forward") if owner is not None else None
    calls = [part for part in walk(forward) if isinstance(part, ast.Call)] if forward is not None else []
    package = layer.partition(".")[0]
    return bool(calls) and not any(_may_reach(call, package, ctx) for call in calls)


def _may_reach(call: ast.Call, package: str, ctx: Context) -> bool:
    """`super().forward(x)`, `deform_conv2d(x)` of the package itself, kernels, and what nothing is known of."""
    if any(isinstance(part, ast.Call) and identifier(part.func) == "super" for part in walk(call.func)):
        return True
    names = ctx.callees(call)
    if not names:
        return isinstance(call.func, ast.Name) or is_own(call.func)
    return any(
        name == _KERNEL or name.partition(".")[0] == package or ctx.module.project.definition(name) is not None
        for name in names
    )


def _classes(node: ast.AST, ctx: Context) -> tuple[ClassInfo, ...]:
    owner = ctx.module.index.class_at(node)
    return ctx.inference.mro(ctx.inference.class_info(owner)) if owner is not None else ()
