"""DET604: a non-blocking copy from device to host is read by the CPU before anything waited for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.values import Kind
from detlint.linter.memory.copy_reads import ASIDE, Running, outlives, read, read_of_place
from detlint.linter.memory.host_copies import goes_to_cpu, is_non_blocking, is_of_cpu
from detlint.linter.memory.looped import parts_gone_through
from detlint.linter.memory.moves import copies_as_told, is_taken_to_wait, told_to_cpu
from detlint.linter.memory.pinned import is_pinned
from detlint.linter.memory.waits import WAITING_METHODS, always_waits
from detlint.linter.source.names import BindingKind

_PROMISES = ("async", "enqueue")  # what is called so leaves waiting to whoever calls it


@check("DET604", calls=("to", "copy_"))
def unsynchronized_copy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """Silent unless the target is the CPU for sure and a read is reached without a synchronisation."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not is_non_blocking(call, ctx) or _is_promised(call, ctx):
        return
    if isinstance(ctx.parent(call), ast.Expr) and function.attr == "to":
        if goes_to_cpu(call, ctx) and not _is_waited_for(call, ctx):
            yield ctx.finding(call, copy=ast.unparse(call)[:80], where="next")
        return
    if not _may_be_tensor(function.value, ctx):
        return
    if function.attr == "to":
        if goes_to_cpu(call, ctx):
            yield from _read_too_early(call, ctx) if not is_of_cpu(function.value, ctx) else ()
        else:
            yield from _read_where_told(call, ctx)
    else:
        buffers = dict.fromkeys((_whole(function.value, ctx), function.value))
        reader = next(filter(None, (_read_of_buffer(buffer, call, ctx) for buffer in buffers)), None)
        yield from _finding(call, reader, ctx) if reader is not None else ()


@check("DET604", nodes=(ast.keyword,))
def copy_of_project(keyword: ast.keyword, ctx: Context) -> Iterator[Finding]:
    """`move(output, device="cpu", non_blocking=True)`, where a function of the project hands both on."""
    call = ctx.parent(keyword) if keyword.arg == "non_blocking" else None
    if not isinstance(call, ast.Call) or _is_promised(call, ctx):
        return
    if copies_as_told(call, ctx):
        yield from _read_too_early(call, ctx)


def _read_too_early(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """Report a copy to the CPU that something reads, or that leaves a method `cpu` on its way."""
    reader = read(call, Running(call, ctx.flow(call)), ctx)
    if reader is not None:
        yield from _finding(call, reader, ctx)
    elif is_taken_to_wait(call, ctx):
        yield ctx.finding(call, copy=ast.unparse(call)[:80], where="after cpu()")


def _read_where_told(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """Report a copy to wherever callers say, if one of them says the CPU and reads it."""
    if not outlives(Running(call, ctx.flow(call)), ctx):
        return
    for caller, site in told_to_cpu(call, ctx):
        reader = read(site, Running(site, caller.flow(site), calls=1), caller)
        if reader is not None:
            name = "" if caller.module is ctx.module else f"{caller.module.path.name}:"
            yield ctx.finding(call, copy=ast.unparse(call)[:80], where=f"at {name}{caller.line(reader)}")
            return


def _finding(call: ast.Call, reader: ast.expr, ctx: Context) -> Iterator[Finding]:
    """Report a read, but for one after a `with self.stream():` of the project that waits at its end."""
    withs = (parent for parent in ctx.ancestors(call) if isinstance(parent, (ast.With, ast.AsyncWith)))
    left = (around for around in withs if around not in ctx.ancestors(reader))
    managers = (item.context_expr for around in left for item in around.items)
    if not any(isinstance(manager, ast.Call) and always_waits(manager, ctx) for manager in managers):
        yield ctx.finding(call, copy=ast.unparse(call)[:80], where=f"at {ctx.line(reader)}")


def _is_waited_for(call: ast.Call, ctx: Context) -> bool:
    """Does the function wait after `model.to("cpu", non_blocking=True)`, or only put a model aside for the device?"""
    function = ctx.module.index.function_at(call)
    tests = (ast.unparse(parent.test) for parent in ctx.ancestors(call) if isinstance(parent, ast.If))
    said = (function.name, *tests) if function is not None else ()
    if not said or any(word in text.lower() for word in ASIDE for text in said):
        return True
    flow = ctx.flow(call)
    waits = (part for name in WAITING_METHODS for part in ctx.module.index.calls_by_name.get(name, ()))
    return any(part in flow and flow.path(call, part) for part in waits)


def _is_promised(call: ast.Call, ctx: Context) -> bool:
    """`def enqueue_copy(self): self.host = self.values.to("cpu", non_blocking=True).numpy()`."""
    function = ctx.module.index.function_at(call)
    return function is not None and any(word in function.name.lower() for word in _PROMISES)


def _may_be_tensor(node: ast.expr, ctx: Context) -> bool:
    """Can this have the methods of a tensor: `found`, `(tokens == end)`?"""
    return isinstance(node, ast.Compare) or {value.kind for value in ctx.values(node)} <= {
        Kind.TENSOR,
        Kind.UNKNOWN,
        Kind.NONE,
    }


def _whole(part: ast.expr, ctx: Context) -> ast.expr:
    """Return `buffer` of `buffer[:n]`, and of `part` after `part = buffer[:n]`."""
    made = only_value(ctx.module, part) if isinstance(part, ast.Name) else None
    part = made if isinstance(made, ast.Subscript) else part
    while isinstance(part, ast.Subscript):
        part = part.value
    return part


def _read_of_buffer(buffer: ast.expr, copy: ast.Call, ctx: Context) -> ast.expr | None:
    if not is_pinned(buffer, ctx):
        return None
    bindings = ctx.module.definitions(buffer) if isinstance(buffer, ast.Name) else ()
    running = Running(copy, ctx.flow(copy), renewed=tuple(binding.node for binding in bindings))
    found = read_of_place(buffer, running, ctx)
    if found is not None:
        return found
    held = Running(copy, ctx.flow(copy))
    kept = next(filter(None, (read_of_place(place, held, ctx) for place in _holders(buffer, ctx))), None)
    return kept or read(copy, Running(copy, ctx.flow(copy)), ctx)  # `host = buffer.copy_(x, non_blocking=True)`


def _holders(buffer: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """`hosts` of `for host, value in zip(hosts, values)`."""
    for binding in ctx.module.definitions(buffer) if isinstance(buffer, ast.Name) else ():
        if binding.kind is BindingKind.ITERATION and binding.value is not None:
            parts = parts_gone_through(binding.value, ctx)
            yield from (part for part in parts if isinstance(part, ast.Name) and is_pinned(part, ctx))
