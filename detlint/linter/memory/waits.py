"""Does a call wait for the device: a synchronisation, a read of another tensor, or a result as long as values say?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.values import Kind
from detlint.linter.memory.forms import SIZED_BY_VALUES
from detlint.linter.memory.host_copies import goes_to_cpu, is_non_blocking, is_of_cpu
from detlint.linter.memory.looped import goes_through
from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.flow import Flow

WAITING_METHODS = frozenset({"synchronize", "item", "tolist", "cpu", "query"})
_MOST_LOOPS = 3


def waits_for(call: ast.Call, text: str, ctx: Context) -> bool:
    """Return whether a call waits for the device: a synchronisation, or a read or copy of another tensor from it."""
    if identifier(call.func) in SIZED_BY_VALUES:
        return _asks_how_many(call, text, ctx)
    if not isinstance(call.func, ast.Attribute):
        return False
    copies = call.func.attr == "to" and goes_to_cpu(call, ctx) and not is_non_blocking(call, ctx)
    if not copies and call.func.attr not in WAITING_METHODS:
        return False
    if call.func.attr == "query" and not _decides(call, ctx):
        return False
    receiver = call.func.value
    return not (_is_taken_from(receiver, text, ctx) or is_of_cpu(receiver, ctx) or _is_copied(receiver, ctx))


def _asks_how_many(call: ast.Call, text: str, ctx: Context) -> bool:
    """`rows.masked_select(mask)`, `torch.nonzero(mask)`: how long the result is, the device has to say."""
    names = ctx.callees(call)
    if any(name.startswith("torch.") and not name.startswith("torch.Tensor.") for name in names):
        operands = call.args
    else:
        operands = [*([call.func.value] if isinstance(call.func, ast.Attribute) else []), *call.args]
    first = operands[0] if operands else None
    if first is None or any(_is_taken_from(each, text, ctx) or is_of_cpu(each, ctx) for each in operands):
        return False
    return ctx.is_kind(first, Kind.TENSOR) is Truth.YES and not _is_copied(first, ctx)


def waits_in(flow: Flow, text: str, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls in a body that wait for the device, themselves or inside a function of the project."""
    for call in _named_waits(ctx):
        if call in flow and waits_for(call, text, ctx):
            yield call
    for call in ctx.module.index.of_type(ast.Call):
        if call in flow and always_waits(call, ctx):
            yield call


def _named_waits(ctx: Context) -> Iterator[ast.Call]:
    for name in ("to", *WAITING_METHODS, *SIZED_BY_VALUES):
        yield from ctx.module.index.calls_by_name.get(name, ())


def always_waits(call: ast.Call, ctx: Context) -> bool:
    """`self.permute(rows)`: does a function of the project come to no end before it has waited for the device?"""
    called = list(functions_called(ctx.inference, call))
    if len(called) != 1:
        return False
    module, function = called[0]
    inside = ctx.elsewhere(module)
    flow = inside.flow(function.body[0])
    waits = [each for each in _named_waits(inside) if each in flow and waits_for(each, "", inside)]
    return bool(waits) and not flow.path(None, None, avoiding=waits)


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
                source = binding.value
                through = source is not None and (binding.kind is BindingKind.ITERATION or goes_through(source, ctx))
                if source is not None and through and _is_taken_from(source, text, ctx, loops - 1):
                    return True
    return False
