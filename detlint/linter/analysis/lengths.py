"""How many elements has a list or tuple: as it is written, repeated, returned, unpacked or annotated?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.returned import returned_by
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.source.names import Binding

_MAX_STEPS = 4
_COPIES = (("builtins.list",), ("builtins.tuple",))


def length(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> int | None:
    """Return the number of elements of a sequence, or None where that cannot be told."""
    if steps == 0:
        return None
    if isinstance(node, (ast.Tuple, ast.List)):
        return None if any(isinstance(element, ast.Starred) for element in node.elts) else len(node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _repeated(node.left, node.right, ctx, steps) or _repeated(node.right, node.left, ctx, steps)
    if isinstance(node, ast.Call) and len(node.args) == 1 and ctx.resolve(node.func) in _COPIES:
        return length(node.args[0], ctx, steps - 1)
    if isinstance(node, ast.Call):
        given = returned_by(ctx.callees(node), ctx) or ()
        found = {length(value, inside, steps - 1) for value, inside in given}
        return found.pop() if len(found) == 1 else None
    if not isinstance(node, ast.Name):
        return None
    found = {_of_binding(binding, ctx, steps) for binding in ctx.module.definitions(node)}
    return found.pop() if len(found) == 1 else None


def _repeated(elements: ast.expr, times: ast.expr, ctx: Context, steps: int) -> int | None:
    """`[1] * 4`."""
    once, count = length(elements, ctx, steps - 1), ctx.constant(times)
    return once * count if once is not None and isinstance(count, int) else None


def _of_binding(binding: Binding, ctx: Context, steps: int) -> int | None:
    if isinstance(binding.node, ast.arg):
        return _annotated(binding.node.annotation) or _unpacked(binding, ctx)
    if binding.kind is not BindingKind.ASSIGN or binding.index or binding.value is None:
        return None
    return length(binding.value, ctx, steps - 1)


def _annotated(annotation: ast.expr | None) -> int | None:
    """`Tuple[int, int]`, `tuple[int, ...]`."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return None
    name = annotation.value
    last = identifier(name)
    parts = annotation.slice.elts
    open_ended = any(isinstance(part, ast.Constant) and part.value is ... for part in parts)
    return len(parts) if last in ("Tuple", "tuple") and not open_ended else None


def _unpacked(binding: Binding, ctx: Context) -> int | None:
    """`left, right = padding` in the function that is given it."""
    for statement in ctx.module.index.of_type(ast.Assign):
        target, value = statement.targets[0], statement.value
        if isinstance(value, ast.Name) and isinstance(target, ast.Tuple) and value.id == binding.name:
            starred = any(isinstance(element, ast.Starred) for element in target.elts)
            if not starred and binding in ctx.module.definitions(value):
                return len(target.elts)
    return None
