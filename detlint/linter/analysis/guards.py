"""What branches settle about a name: inside `if mode == "reflect":` the mode is that, and after it, it is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.source.names import Binding

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_AGREEING = (ast.Eq, ast.In, ast.Is)
_COMPARING = (*_AGREEING, ast.NotEq, ast.NotIn, ast.IsNot)


def settled(node: ast.expr, ctx: Context) -> ast.Constant | None:
    """Return the literal that a name or attribute was compared with by a condition around it, in its function."""
    known = (literals[0] for literals, alike in _compared_with(node, ctx) if alike and len(literals) == 1)
    return next(known, None)


def ruled_out(node: ast.expr, ctx: Context) -> list[object]:
    """Return the literals that a name or attribute is not: `else` of `if mode == "reflect":`, or after its `return`."""
    return [literal.value for literals, alike in _compared_with(node, ctx) if not alike for literal in literals]


def _compared_with(node: ast.expr, ctx: Context) -> Iterator[tuple[list[ast.Constant], bool]]:
    """Yield literals that a condition around a name or attribute lists, and whether it is one of them or none."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return
    written, made = ast.unparse(node), _definitions(node, ctx)
    for test, holds in ctx.module.index.conditions_around(node):
        for part, part_holds in _parts(test, holds):
            found = _compared(part, written)
            if found is not None and isinstance(part, ast.Compare) and _definitions(part.left, ctx) == made:
                literals, alike = found
                yield literals, alike is part_holds


def _definitions(node: ast.expr, ctx: Context) -> set[Binding]:
    """Return what sets a name before it is read: another value between a condition and its use is another matter."""
    return set(ctx.module.definitions(node)) if isinstance(node, ast.Name) else set()


def _parts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what follows from a condition: both sides of an `and` that holds, and of an `or` that does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not holds)
    elif isinstance(test, ast.BoolOp):
        for part in test.values if isinstance(test.op, ast.And) is holds else ():
            yield from _parts(part, holds)
    else:
        yield test, holds


def _compared(test: ast.expr, written: str) -> tuple[list[ast.Constant], bool] | None:
    """`mode == "reflect"`, `mode not in ("reflect", "replicate")`: with what, and whether it is to be one of them."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], _COMPARING):
        return None
    if ast.unparse(test.left) != written:
        return None
    other = test.comparators[0]
    listed = other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other]
    literals = [part for part in listed if isinstance(part, ast.Constant)]
    several = isinstance(test.ops[0], (ast.In, ast.NotIn))
    if len(literals) != len(listed) or several is (listed == [other]):
        return None
    return literals, isinstance(test.ops[0], _AGREEING)
