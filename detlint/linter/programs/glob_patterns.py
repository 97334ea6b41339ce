"""Does a pattern look up one path? Then what is found has no order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.made import given_to
from detlint.linter.source.names import BindingKind
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 3
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def names_one_path(pattern: ast.expr | None, ctx: Context) -> bool:
    """`root.rglob("weights.pth")`, `glob(folder + "/images/" + name + ".png")`: is there no wildcard in a pattern?

    Something of it must be written out, or its end called a file name, else nobody knows; and nothing else in it may be
    called a pattern, or be one that the caller gives: `glob(os.path.join(run, "checkpoints", which))`.
    """
    if pattern is None:
        return False
    parts = list(_parts(pattern, ctx, _MAX_STEPS))
    if not parts or any(_may_match_several(part, ctx) for part in parts):
        return False  # nothing is known of `glob(image_pattern())`
    last = parts[-1]
    if isinstance(last, ast.Name) and last.id.lower().endswith(order_table().files):
        return len(parts) > 1
    if _is_given(last, ctx):
        return False
    texts = map(ctx.constant, parts)
    return any(isinstance(text, str) and any(map(str.isalnum, text)) for text in texts)


def leaves_ending_open(pattern: ast.expr | None, ctx: Context) -> bool:
    """`glob(folder + "/logo.*")`: is all but the ending of a name written out? Who takes one of them knows the file."""
    parts = list(_parts(pattern, ctx, _MAX_STEPS)) if pattern is not None else []
    last = ctx.constant(parts[-1]) if parts else None
    if not isinstance(last, str) or not last.endswith(".*"):
        return False
    return not _has_wildcard(last.removesuffix(".*")) and not any(_may_match_several(part, ctx) for part in parts[:-1])


def _parts(node: ast.expr, ctx: Context, steps: int) -> Iterator[ast.expr]:
    """Yield the pieces that a path is put together of, variables followed; a template comes after its values."""
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _parts(value.value if isinstance(value, ast.FormattedValue) else value, ctx, steps)
    elif isinstance(node, ast.BinOp):
        right = node.right.elts if isinstance(node.right, ast.Tuple) else (node.right,)
        for side in (*right, node.left) if isinstance(node.op, ast.Mod) else (node.left, *right):
            yield from _parts(side, ctx, steps)
    elif isinstance(node, ast.Call):
        method = node.func if isinstance(node.func, ast.Attribute) else None
        receiver = (method.value,) if method is not None and not ctx.resolve(method.value) else ()
        for piece in (*node.args, *(keyword.value for keyword in node.keywords), *receiver):
            yield from _parts(piece, ctx, steps)
    elif isinstance(node, ast.Name) and steps:
        bindings = ctx.module.definitions(node)
        assigned = [given_to(binding) for binding in bindings if binding.kind is BindingKind.ASSIGN]
        values = [value for value in assigned if value is not None]
        if values and len(values) == len(bindings):
            for value in values:
                yield from _parts(value, ctx, steps - 1)
        else:
            yield node
    else:
        yield node


def _is_given(part: ast.expr, ctx: Context) -> bool:
    bindings = ctx.module.definitions(part) if isinstance(part, ast.Name) else ()
    return isinstance(part, ast.Attribute) or any(b.kind is BindingKind.PARAMETER for b in bindings)


def _may_match_several(part: ast.expr, ctx: Context) -> bool:
    """Is there a wildcard in a piece, is something appended to it later, or does its name say that it is a pattern?"""
    for value in ctx.values(part):
        written = ast.walk(value.node) if isinstance(value.node, (ast.Constant, ast.JoinedStr, ast.BinOp)) else ()
        if any(isinstance(text, ast.Constant) and _has_wildcard(text.value) for text in written):
            return True
    if isinstance(part, ast.Name) and any(b.kind is BindingKind.AUGMENTED for b in ctx.module.definitions(part)):
        return True
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(part))
    words = {word.lower() for name in names for word in _WORD.findall(name)}
    return not order_table().patterns.isdisjoint(words)


def _has_wildcard(text: object) -> bool:
    return isinstance(text, str) and any(wildcard in text for wildcard in "*?[")
