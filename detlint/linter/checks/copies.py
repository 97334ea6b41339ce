"""DET604: a non-blocking copy from device to host is read by the CPU before anything waited for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from detlint.findings import Finding
from detlint.linter.calls import argument_of
from detlint.linter.context import Context
from detlint.linter.flow import Flow
from detlint.linter.names import FUNCTIONS, Binding, FunctionNode, parameters
from detlint.linter.nodes import is_own
from detlint.linter.registry import check
from detlint.linter.values import Kind
from detlint.linter.written_calls import written_out

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
_WAITING_METHODS = frozenset({"synchronize", "item", "tolist", "cpu", "wait_stream", "query"})
_FILLING = frozenset({"append", "extend", "insert"})
_KEEPING = ("save_for_backward", "P2POp")  # functions of torch that keep a tensor for later
_ASIDE = ("offload", "unload", "onload", "sleep", "swap", "free", "drop", "release", "evict", "exit")
_PROMISES = ("async", "enqueue")  # what is called so leaves waiting to whoever calls it


@dataclass(frozen=True, slots=True)
class _Running:
    """A copy that runs: since `call`, or since the beginning of a function that is given it (then None)."""

    call: ast.Call | None
    flow: Flow

    def reaches(self, goal: ast.AST, waits: list[ast.Call]) -> bool:
        return goal in self.flow and self.flow.path(self.call, goal, avoiding=waits)


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
        read = _read(call, _Running(call, ctx.flow(call)), ctx) if copies else None
    else:
        read = _read_of_buffer(_whole(function.value), call, ctx)
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
    """`host.to("cpu", non_blocking=True)`, also by `options = {"non_blocking": True}` and `**options`."""
    position = 2 if isinstance(call.func, ast.Attribute) and call.func.attr == "to" else 1
    written = written_out(ctx.module, call, "")
    given = [keyword.value for keyword in written.keywords if keyword.arg == "non_blocking"]
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
    written = written_out(ctx.module, call, "")
    targets = [keyword.value for keyword in written.keywords if keyword.arg == "device"] or call.args[:1]
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


def _whole(part: ast.expr) -> ast.expr:
    """Return `buffer` of `buffer[:n]`."""
    while isinstance(part, ast.Subscript):
        part = part.value
    return part


def _read_of_buffer(buffer: ast.expr, copy: ast.Call, ctx: Context) -> ast.expr | None:
    if not _is_pinned(buffer, ctx):
        return None
    running = _Running(copy, ctx.flow(copy))
    if isinstance(buffer, ast.Name):
        return _read_of_name(buffer.id, running, ctx, ctx.module.definitions(buffer))
    if not is_own(buffer) or not isinstance(buffer, ast.Attribute):
        return None
    uses = (use for use in ctx.module.index.names_used.get(buffer.attr, ()) if is_own(use))
    loads = (use for use in uses if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load))
    return _read_of_uses(ast.unparse(buffer), loads, running, ctx)


def _read(node: ast.expr, copy: _Running, ctx: Context) -> ast.expr | None:
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


def _read_of_attribute(attribute: ast.Attribute, copy: _Running, ctx: Context) -> ast.expr | None:
    call = ctx.parent(attribute)
    called = isinstance(call, ast.Call) and call.func is attribute
    if attribute.attr in _FORM or (called and attribute.attr in _TO_DEVICE):
        return None
    if attribute.attr in _VIEWS:
        return _read(call if called and isinstance(call, ast.Call) else attribute, copy, ctx)
    return attribute if called and attribute.attr not in _FILLING else None


def _read_of_argument(node: ast.expr, call: ast.Call, copy: _Running, ctx: Context) -> ast.expr | None:
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
    if isinstance(function, ast.Attribute) and function.attr == "copy_":
        return call if _is_of_cpu(function.value, ctx) else None
    return call if copy.call is not None and _is_read_inside(node, call, ctx) else None


def _is_read_inside(node: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """`scores(host)` of a function of the project that reads what it is given."""
    for name in ctx.callees(call):
        definition = ctx.module.project.definition(name)
        module, function = definition if definition is not None else (ctx.module, None)
        if not isinstance(function, FUNCTIONS):
            continue
        scope = module.index.scopes[function]
        parameter = _parameter_given(node, call, function)
        bindings = tuple(each for each in scope.bindings.get(parameter, ()) if isinstance(each.node, ast.arg))
        if _read_of_name(parameter, _Running(None, module.flow(scope)), ctx.elsewhere(module), bindings) is not None:
            return True
    return False


def _parameter_given(node: ast.expr, call: ast.Call, function: FunctionNode) -> str:
    """Return the parameter of `function` that gets `node` in a call of it, or nothing."""
    method = isinstance(call.func, ast.Attribute)
    names = (argument.arg for argument, _ in parameters(function.args))
    return next((name for name in names if argument_of(function, name, call, skip_self=method) is node), "")


def _read_of_name(name: str, copy: _Running, ctx: Context, bindings: tuple[Binding, ...]) -> ast.expr | None:
    uses = (use for binding in bindings for use in copy.flow.uses(binding))
    return _read_of_uses(name, uses, copy, ctx)


def _read_of_uses(text: str, uses: Iterable[ast.expr], copy: _Running, ctx: Context) -> ast.expr | None:
    waits = [node for node in ctx.module.index.of_type(ast.Call) if _waits(node, text, ctx) and node in copy.flow]
    for use in uses:
        found = _read(use, copy, ctx) if copy.reaches(use, waits) else None
        # The arguments of the reading call may themselves wait: torch.cat((host, other.cpu())).
        if found is not None and copy.reaches(found, waits):
            return found
    return None


def _waits(call: ast.Call, text: str, ctx: Context) -> bool:
    """Return whether a call waits for the device: a synchronisation, or a read or copy of another tensor from it."""
    if not isinstance(call.func, ast.Attribute):
        return False
    copies = call.func.attr == "to" and _goes_to_cpu(call, ctx) and not _is_non_blocking(call, ctx)
    if not copies and call.func.attr not in _WAITING_METHODS:
        return False
    parts = (part for part in ast.walk(call.func.value) if isinstance(part, (ast.Name, ast.Attribute)))
    return not any(ast.unparse(part) == text for part in parts)
