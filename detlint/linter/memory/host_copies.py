"""Does a call copy to the CPU, and go on while the copy is on its way?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.constructions import callers_of
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.element_fills import entries, first_entries
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_calls import written_out
from detlint.linter.programs.devices import named_device
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

VIEWS = frozenset(
    {"detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "t", "T", "data"}
)
"""Methods and attributes of a tensor that give it as it is, or a part of it."""

_MAKERS = frozenset(f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "arange", "tensor"))
_DEVICES = ("device", "dev")
_STEPS = 4  # of names


def is_non_blocking(call: ast.Call, ctx: Context) -> bool:
    """`host.to("cpu", non_blocking=True)`, also by `options = {"non_blocking": True}` and `**options`."""
    position = 2 if isinstance(call.func, ast.Attribute) and call.func.attr == "to" else 1
    written = written_out(ctx.module, call, "")
    given = [keyword.value for keyword in written.keywords if keyword.arg == "non_blocking"]
    given += call.args[position : position + 1]
    return any(is_on(value, ctx) for value in given)


def is_on(flag: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """Is a setting on, if only by default, `def fetch(x, non_blocking=True)`, and not turned off by all callers?"""
    if ctx.constant(flag) is True:
        return True
    if not steps or truth_by_default(flag, ctx) is not Truth.YES:
        return False
    bindings = ctx.module.definitions(flag) if isinstance(flag, ast.Name) else ()
    function = bindings[0].scope.node if bindings and bindings[0].kind is BindingKind.PARAMETER else None
    if not isinstance(function, FUNCTIONS):
        return True
    sites = callers_of(function, ctx) or []
    return not sites or any(_leaves_on(function, bindings[0].name, *site, steps - 1) for site in sites)


def _leaves_on(function: FunctionNode, parameter: str, caller: Context, call: ast.Call, steps: int) -> bool:
    given = argument_of(function, parameter, call, skip_self=isinstance(call.func, ast.Attribute))
    return given is None or is_on(given, caller, steps)


def is_of_cpu(node: ast.expr, ctx: Context) -> bool:
    """`torch.zeros(n).detach()`: was the tensor made where no device was asked for?"""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS:
        node = node.func.value
    made = made_of(node, ctx)
    return bool(made) and all(isinstance(call, ast.Call) and _makes_on_cpu(call, ctx) for call in made)


def made_of(node: ast.expr, ctx: Context) -> list[ast.AST | None]:
    """Return what a buffer is made by; for `self.buffers[key]` all that is put there, one buffer for each form."""
    entry = only_value(ctx.module, node) if isinstance(node, ast.Name) else node
    holder = entry.value if isinstance(entry, ast.Subscript) else None
    if isinstance(holder, (ast.Name, ast.Attribute)):
        put = [value for value, steps in entries(holder, ctx.module.index) if not steps]
        put += first_entries(holder, ctx.module.index)
        if put:
            return [*put]
    return [value.node for value in ctx.values(node) if value.kind is not Kind.NONE]


def _makes_on_cpu(call: ast.Call, ctx: Context) -> bool:
    asks = any(keyword.arg in (None, "device") for keyword in call.keywords)
    return not asks and any(name in _MAKERS for name in ctx.callees(call))


def goes_to_cpu(call: ast.Call, ctx: Context) -> bool:
    written = written_out(ctx.module, call, "")
    targets = [keyword.value for keyword in written.keywords if keyword.arg == "device"] or call.args[:1]
    return any(is_cpu(target, ctx) for target in targets)


def is_cpu(node: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """`"cpu"`, `torch.device("cpu")`, or a variable that says so: a plain `device` holds the CPU only in passing."""
    if isinstance(node, (ast.Constant, ast.Call)):
        return named_device(node, ctx) == "cpu"
    if steps and isinstance(node, (ast.Name, ast.Attribute)):
        made = [value.node for value in ctx.values(node) if value.kind is not Kind.NONE]
        named = "cpu" in identifier(node).lower() or (bool(made) and _is_one_of_several(identifier(node), ctx))
        return named and all(isinstance(part, ast.expr) and is_cpu(part, ctx, steps - 1) for part in made)
    return False


def _is_one_of_several(name: str, ctx: Context) -> bool:
    """`state_dev` in a file that has an `exec_dev` too: each is called for what it is there for."""
    if "_" not in name or not _names_device(name):
        return False
    uses = ctx.module.index.names_used.items()
    others = (use for other, found in uses if other != name and _names_device(other) for use in found)
    return any(not isinstance(around := ctx.parent(use), ast.Call) or around.func is not use for use in others)


def _names_device(name: str) -> bool:
    return name.lower().rpartition("_")[2] in _DEVICES
