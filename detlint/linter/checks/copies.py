"""DET604: a non-blocking copy from device to host is read by the CPU before anything waited for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.context import Context
from detlint.linter.registry import check
from detlint.linter.values import Kind

# Looks at the form of a tensor only, or hands it on unread.
_FORM = frozenset(
    {"shape", "dtype", "device", "size", "dim", "ndim", "numel", "is_cuda", "is_pinned", "stride", "nbytes"}
)
_VIEWS = frozenset(
    {"detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "t", "T", "data"}
)
_TO_DEVICE = frozenset({"to", "cuda", "record_stream", "pin_memory", "copy_"})
_MAKERS = frozenset(f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "arange", "tensor"))
_READING_BUILTINS = frozenset({"float", "int", "bool", "print", "list", "tuple", "sum", "max", "min", "sorted", "str"})
_WAITING_METHODS = frozenset({"synchronize", "item", "tolist", "cpu", "wait_stream"})
_FILLING = frozenset({"append", "extend", "insert"})
_KEEPING = ("save_for_backward", "P2POp")  # functions of torch that keep a tensor for later
_ASIDE = ("offload", "unload", "onload", "sleep", "swap", "free", "drop", "release", "evict", "exit")
_PROMISES = ("async", "enqueue")  # what is called so leaves waiting to whoever calls it


@check("DET604", nodes=(ast.Call,))
def unsynchronized_copy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """Silent unless the target is the CPU for sure and a read is reached without a synchronisation."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("to", "copy_"):
        return
    if not _is_non_blocking(call, ctx) or _is_promised(call, ctx):
        return
    if isinstance(ctx.parent(call), ast.Expr) and function.attr == "to":
        if _goes_to_cpu(call, ctx) and not _is_waited_for(call, ctx):
            yield ctx.finding(call, copy=ast.unparse(call)[:80], where="next")
        return
    if not _may_be_tensor(function.value, ctx):
        return
    if function.attr == "to":
        copies = _goes_to_cpu(call, ctx) and not _is_of_cpu(function.value, ctx)
        read = _read(call, call, ctx) if copies else None
    else:
        read = _read_of_buffer(function.value, call, ctx) if _is_pinned(function.value, ctx) else None
    if read is not None:
        yield ctx.finding(call, copy=ast.unparse(call)[:80], where=f"at line {read.lineno}")


def _is_waited_for(call: ast.Call, ctx: Context) -> bool:
    """Does the function wait after `model.to("cpu", non_blocking=True)`, or only put a model aside for the device?"""
    function = ctx.module.index.function_at(call)
    tests = (ast.unparse(parent.test) for parent in ctx.ancestors(call) if isinstance(parent, ast.If))
    said = (function.name, *tests) if function is not None else ()
    if not said or any(word in text.lower() for word in _ASIDE for text in said):
        return True
    flow = ctx.flow(call)
    waits = (part for name in _WAITING_METHODS for part in ctx.module.index.calls_by_name.get(name, ()))
    return any(part in flow and flow.path(call, part) for part in waits)


def _is_promised(call: ast.Call, ctx: Context) -> bool:
    """`def enqueue_copy(self): self.host = self.values.to("cpu", non_blocking=True).numpy()`."""
    function = ctx.module.index.function_at(call)
    return function is not None and any(word in function.name.lower() for word in _PROMISES)


def _is_non_blocking(call: ast.Call, ctx: Context) -> bool:
    position = 2 if isinstance(call.func, ast.Attribute) and call.func.attr == "to" else 1
    given = [keyword.value for keyword in call.keywords if keyword.arg == "non_blocking"]
    given += call.args[position : position + 1]
    return any(ctx.constant(value) is True for value in given)


def _may_be_tensor(node: ast.expr, ctx: Context) -> bool:
    return {value.kind for value in ctx.values(node)} <= {Kind.TENSOR, Kind.UNKNOWN, Kind.NONE}


def _is_of_cpu(node: ast.expr, ctx: Context) -> bool:
    """`torch.zeros(n).detach()`: was the tensor made where no device was asked for?"""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        node = node.func.value
    made = [value.node for value in ctx.values(node)]
    return bool(made) and all(isinstance(call, ast.Call) and _makes_on_cpu(call, ctx) for call in made)


def _makes_on_cpu(call: ast.Call, ctx: Context) -> bool:
    asks = any(keyword.arg in (None, "device") for keyword in call.keywords)
    return not asks and any(name in _MAKERS for name in ctx.callees(call))


def _goes_to_cpu(call: ast.Call, ctx: Context) -> bool:
    targets = [keyword.value for keyword in call.keywords if keyword.arg == "device"] or call.args[:1]
    return any(_is_cpu(target, ctx) for target in targets)


def _is_cpu(node: ast.expr, ctx: Context) -> bool:
    """`"cpu"`, `torch.device("cpu")`, or a variable that says so: a plain `device` holds the CPU only in passing."""
    if isinstance(node, ast.Constant):
        return node.value == "cpu"
    if isinstance(node, ast.Call):
        named = "torch.device" in ctx.callees(node) and bool(node.args)
        return named and ctx.constant(node.args[0]) == "cpu"
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        made = [value.node for value in ctx.values(node)]
        return "cpu" in name.lower() and all(isinstance(part, ast.expr) and _is_cpu(part, ctx) for part in made)
    return False


def _is_pinned(buffer: ast.expr, ctx: Context) -> bool:
    """Return whether a buffer is host memory that a device can copy into while the CPU goes on."""
    made = [value.node for value in ctx.values(buffer)]
    return bool(made) and all(isinstance(node, ast.Call) and _makes_pinned(node, ctx) for node in made)


def _makes_pinned(node: ast.Call, ctx: Context) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "pin_memory":
        return True
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if ctx.constant(given.get("pin_memory")) is True:
        return True
    return "device" in given and _is_cpu(given["device"], ctx)


def _read_of_buffer(buffer: ast.expr, copy: ast.Call, ctx: Context) -> ast.expr | None:
    if not isinstance(buffer, ast.Name):
        return None
    return _read_of_name(buffer.id, copy, ctx, ctx.module.definitions(buffer))


def _read(node: ast.expr, copy: ast.Call, ctx: Context) -> ast.expr | None:
    """Return the expression that reads the value of `node` on the CPU, or None."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.Attribute):
        return _read_of_attribute(parent, copy, ctx)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and parent.value is node:
        binding = ctx.binding(node)
        return None if binding is None else _read_of_name(binding.name, copy, ctx, (binding,))
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return _read(parent, copy, ctx) if isinstance(parent.ctx, ast.Load) else None
    if isinstance(parent, (ast.List, ast.Tuple, ast.ListComp)):
        return _read(parent, copy, ctx)
    if isinstance(parent, ast.Call):
        return _read_of_argument(node, parent, copy, ctx)
    if isinstance(parent, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.BoolOp, ast.FormattedValue)):
        return node
    return node if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)) and parent.test is node else None


def _read_of_attribute(attribute: ast.Attribute, copy: ast.Call, ctx: Context) -> ast.expr | None:
    call = ctx.parent(attribute)
    called = isinstance(call, ast.Call) and call.func is attribute
    if attribute.attr in _FORM or (called and attribute.attr in _TO_DEVICE):
        return None
    if attribute.attr in _VIEWS:
        return _read(call if called and isinstance(call, ast.Call) else attribute, copy, ctx)
    return attribute if called and attribute.attr not in _FILLING else None


def _read_of_argument(node: ast.expr, call: ast.Call, copy: ast.Call, ctx: Context) -> ast.expr | None:
    names = ctx.callees(call)
    if any(name.endswith(_KEEPING) or name.startswith("torch.optim.") for name in names):
        return None
    if any(name.startswith(("torch.", "numpy.")) and not name.startswith("torch.Tensor.") for name in names):
        return call
    if any(name.removeprefix("builtins.") in _READING_BUILTINS for name in names):
        return call
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _FILLING and isinstance(function.value, ast.Name):
        return _read_of_name(function.value.id, copy, ctx, ctx.module.definitions(function.value))
    return None


def _read_of_name(name: str, copy: ast.Call, ctx: Context, bindings: tuple[object, ...]) -> ast.expr | None:
    flow = ctx.flow(copy)
    waits = [node for node in ctx.module.index.of_type(ast.Call) if _waits(node, name, ctx) and node in flow]
    for binding in bindings:
        for use in flow.uses(binding):  # type: ignore[arg-type]
            if use in flow and flow.path(copy, use, avoiding=waits):
                found = _read(use, copy, ctx)
                # The arguments of the reading call may themselves wait: torch.cat((host, other.cpu())).
                if found is not None and flow.path(copy, found, avoiding=waits):
                    return found
    return None


def _waits(call: ast.Call, name: str, ctx: Context) -> bool:
    """Return whether a call waits for the device: a synchronisation, or a read or copy of another tensor from it."""
    if not isinstance(call.func, ast.Attribute):
        return False
    copies = call.func.attr == "to" and _goes_to_cpu(call, ctx) and not _is_non_blocking(call, ctx)
    if not copies and call.func.attr not in _WAITING_METHODS:
        return False
    return not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(call.func.value))
