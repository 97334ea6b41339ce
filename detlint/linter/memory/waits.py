"""Does a call wait for the device: a synchronisation, or a read of another tensor from it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.host_copies import goes_to_cpu, is_non_blocking, is_of_cpu
from detlint.linter.source.names import BindingKind, unpacked

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

WAITING_METHODS = frozenset({"synchronize", "item", "tolist", "cpu", "query"})
_MOST_LOOPS = 3


def waits_for(call: ast.Call, text: str, ctx: Context) -> bool:
    """Return whether a call waits for the device: a synchronisation, or a read or copy of another tensor from it."""
    if not isinstance(call.func, ast.Attribute):
        return False
    copies = call.func.attr == "to" and goes_to_cpu(call, ctx) and not is_non_blocking(call, ctx)
    if not copies and call.func.attr not in WAITING_METHODS:
        return False
    if call.func.attr == "query" and not _decides(call, ctx):
        return False
    receiver = call.func.value
    return not (_is_taken_from(receiver, text, ctx) or is_of_cpu(receiver, ctx) or _is_copied(receiver, ctx))


def _decides(call: ast.Call, ctx: Context) -> bool:
    """`while not event.query():`, and no question of which the answer is only told."""
    parents = (parent for parent in ctx.ancestors(call) if isinstance(parent, ast.stmt))
    around = next(parents, None)
    test = around.test if isinstance(around, (ast.While, ast.If, ast.Assert)) else None
    return test is not None and (call is test or test in ctx.ancestors(call))


def _is_copied(node: ast.expr, ctx: Context) -> bool:
    """Is a variable another copy on the CPU that may not be there yet? Reading it waits for nothing."""
    made = [unpacked(binding) for binding in ctx.module.definitions(node)] if isinstance(node, ast.Name) else []
    return bool(made) and all(
        isinstance(value, ast.Call) and is_non_blocking(value, ctx) and goes_to_cpu(value, ctx) for value in made
    )


def _is_taken_from(node: ast.expr, text: str, ctx: Context, loops: int = _MOST_LOOPS) -> bool:
    """Is an expression a part of `text`, or of what goes through it: `row` of `for rows in hosts for row in rows`?"""
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) == text:
            return True
        if isinstance(part, ast.Name) and loops:
            for binding in ctx.module.definitions(part):
                iterated = binding.value if binding.kind is BindingKind.ITERATION else None
                if iterated is not None and _is_taken_from(iterated, text, ctx, loops - 1):
                    return True
    return False
