"""Does a kernel of Triton or Warp compute with floats? Only what is seen to counts: a counter is added to alike."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import arguments_of, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Packages in which kernels are written as Python functions.
KERNEL_LANGUAGES = ("triton.", "warp.")
_MAX_STEPS = 6


def computes_floats(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Return whether an expression of a kernel is seen to hold floats: `x * 0.5`, `tl.dot(a, b)`."""
    if steps == 0:
        return False
    parts: list[ast.expr] = []
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div):
            return True
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        parts = [node.value]
    elif isinstance(node, ast.Name):
        bindings = ctx.module.definitions(node)
        if any(isinstance(binding.node, ast.arg) and _declares_floats(binding.node, ctx) for binding in bindings):
            return True
        parts = [binding.value for binding in bindings if binding.value is not None and not binding.index]
    elif isinstance(node, ast.Call):
        known = _called(node, ctx)
        if known is not None:
            return known
        parts = arguments_of(node)
        parts += [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(computes_floats(part, ctx, steps - 1) for part in parts)


def _declares_floats(parameter: ast.arg, ctx: Context) -> bool:
    """`forces: wp.array(dtype=wp.vec3)`."""
    parts = walk(parameter.annotation) if parameter.annotation is not None else ()
    names = (name for part in parts if isinstance(part, (ast.Name, ast.Attribute)) for name in ctx.resolve(part))
    return not ctx.inference.types.kernel_float_dtypes.isdisjoint(names)


def _called(call: ast.Call, ctx: Context) -> bool | None:
    """Does the called function give floats by itself, or by the dtype that it is passed? None: as its arguments do."""
    types = ctx.inference.types
    if not types.kernel_floats.isdisjoint(ctx.callees(call)):
        return True
    passed = (name for argument in arguments_of(call) for name in ctx.resolve(argument))
    dtypes = {name in types.kernel_float_dtypes for name in passed if name in types.kernel_dtypes}
    return None if not dtypes else dtypes == {True}
