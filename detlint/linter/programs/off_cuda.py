"""Which branches run where there is no CUDA: `else` of `if x.is_cuda:`, after `if device.type == "cuda": return`?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.guards import compared, is_settled
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_CUDA = "cuda"
_AVAILABLE = "torch.cuda.is_available"
_OTHERS = frozenset(f"is_{name}" for name in ("cpu", "hpu", "meta", "mps", "mtia", "npu", "xla", "xpu"))
# What holds a device or its type.
_DEVICE = re.compile(r"(^|_)device(_?type)?$|^type$", re.IGNORECASE)
# What a program notes once, when it starts: `IS_CUDA_AVAILABLE`, `cuda_available`.
_NOTED = re.compile(r"^_?((is|has)_)?cuda_(is_)?available$", re.IGNORECASE)
# The same of what stands in a machine instead, and the functions that look for it: `is_npu_available()`.
_OTHER_NOTED = re.compile(r"^_?((is|has)_)?(torch_)?(hpu|mlu|mps|mtia|musa|npu|xpu)_(is_)?available$", re.IGNORECASE)
_OTHERS_AVAILABLE = frozenset(
    f"torch.{name}.is_available" for name in ("hpu", "mlu", "mps", "mtia", "musa", "npu", "xpu")
)
_MOVES = frozenset({"cuda", "to"})
# Kernels of another device, and the names without which no code calls them.
_KERNELS = ("torch_npu.npu_", "torch.ops.npu.")
_VENDORS = frozenset({"npu", "torch_npu"})


def is_off_cuda(call: ast.Call, operands: Iterable[ast.expr | None], ctx: Context, calls: int = 2) -> bool:
    """Return whether conditions keep CUDA away from a call, or from all calls of the function that it stands in.

    So those under which the function or its class is defined. Nothing is known of operands that are moved, perhaps to
    that very device.
    """
    if _is_beside_kernel(call, ctx):
        return True
    if is_settled(call, lambda test, holds: _is_elsewhere(test, holds, ctx), ctx):
        return not any(_is_moved(part, ctx) for operand in operands if operand is not None for part in walk(operand))
    definitions = (around for around in ctx.ancestors(call) if isinstance(around, (*FUNCTIONS, ast.ClassDef)))
    if any(is_settled(around, lambda test, holds: _is_elsewhere(test, holds, ctx), ctx) for around in definitions):
        return True
    function = ctx.function(call) if calls else None
    if function is None or function.name == "forward":
        return False
    sites = list(calls_of(function, ctx))
    return bool(sites) and all(site is not None and is_off_cuda(site[1], (), site[0], calls - 1) for site in sites)


def _is_beside_kernel(call: ast.Call, ctx: Context) -> bool:
    """Does the function call a kernel of another device whenever it makes the call: `torch_npu.npu_swiglu(x)`?"""
    index, function = ctx.module.index, ctx.function(call)
    if function is None or _VENDORS.isdisjoint(index.names_used):
        return False
    conditions = set(index.branches_around(call))
    kernels = (
        part
        for part in walk(function)
        if isinstance(part, ast.Call) and any(name.startswith(_KERNELS) for name in ctx.callees(part))
    )
    return any(conditions.issuperset(index.branches_around(kernel)) for kernel in kernels)


def _is_elsewhere(test: ast.expr, holds: bool, ctx: Context) -> bool:
    """Is work done on another device where a condition holds (or does not)?"""
    if isinstance(test, (ast.Name, ast.Attribute)) and _NOTED.match(identifier(test)):
        return not holds
    if _finds_other(test, ctx):
        return holds
    if isinstance(test, ast.Attribute):
        return holds if test.attr in _OTHERS else test.attr == "is_cuda" and not holds
    if isinstance(test, ast.Call):
        begins = identifier(test.func) == "startswith" and [ctx.constant(part) for part in test.args] == [_CUDA]
        return not holds and (begins or _AVAILABLE in ctx.callees(test))
    return isinstance(test, ast.Compare) and _is_other_device(test, holds, ctx)


def _finds_other(test: ast.expr, ctx: Context) -> bool:
    """`IS_NPU_AVAILABLE`, `is_torch_npu_available()`, `torch.xpu.is_available()`."""
    if isinstance(test, ast.Call) and not _OTHERS_AVAILABLE.isdisjoint(ctx.callees(test)):
        return True
    asked = test.func if isinstance(test, ast.Call) else test
    return isinstance(asked, (ast.Name, ast.Attribute)) and _OTHER_NOTED.match(identifier(asked)) is not None


def _is_other_device(test: ast.Compare, holds: bool, ctx: Context) -> bool:
    """`x.device.type == "cpu"`, not `device != torch.device("cpu")`; `"cuda" in str(x.device)` that does not hold."""
    if ctx.constant(test.left) == _CUDA and isinstance(test.ops[0], (ast.In, ast.NotIn)):
        return isinstance(test.ops[0], ast.NotIn) is holds
    found = device_asked(test, ctx)
    if found is None:
        return False
    _, words, alike = found
    if alike is holds:
        return _OTHERS.issuperset(f"is_{word.partition(':')[0]}" for word in words)
    return _CUDA in words


def device_asked(test: ast.Compare, ctx: Context) -> tuple[ast.expr, list[str], bool] | None:
    """Return what a comparison asks for its device, what it names, and whether the device is to be one of these.

    `x.device.type == "cpu"`, `str(x.device) != "cuda:0"`, `current_device() in ("cpu", "meta")`.
    """
    asked = only_value(ctx.module, test.left) or test.left
    if isinstance(asked, ast.Call) and identifier(asked.func) == "str" and len(asked.args) == 1:
        asked = asked.args[0]
    asked = asked.func if isinstance(asked, ast.Call) else asked
    if not _DEVICE.search(identifier(asked)):
        return None
    found = compared(ast.Compare(test.left, test.ops, [_named(part) for part in test.comparators]))
    return (asked, [str(literal.value) for literal in found[0]], found[1]) if found is not None else None


def _named(device: ast.expr) -> ast.expr:
    """Return the `"cpu"` of `torch.device("cpu")`."""
    made = isinstance(device, ast.Call) and identifier(device.func) == "device" and len(device.args) == 1
    return device.args[0] if isinstance(device, ast.Call) and made else device


def _is_moved(part: ast.AST, ctx: Context) -> bool:
    """`x.cuda()`, or `x` after `x = x.to(device)`."""
    if isinstance(part, ast.Name):
        values = (binding.value for binding in ctx.module.definitions(part))
        return any(isinstance(value, ast.Call) and identifier(value.func) in _MOVES for value in values)
    return isinstance(part, ast.Call) and identifier(part.func) in _MOVES
