"""Does an operator run on the CPU, as far as the code around it shows? Hazards of CUDA kernels count nowhere there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import is_used_elsewhere
from detlint.linter.analysis.calls import dtype_named
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.analysis.testcode import is_unit_test
from detlint.linter.programs.data_code import prepares_data
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import arguments_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.project import Module

# A name that says where a function runs.
_ON_CPU = re.compile(r"(^|_)cpu(_|$)")
# Longer texts tell people something.
_LONGEST_WORD = 40
_MOVES = frozenset({"to", "cuda", "type_as"})
_VIEWS = frozenset({"view", "reshape", "flatten", "long", "float"})
# What says that a file may work on another device.
_DEVICES = frozenset({"cuda", "device", "devices", "get_device", "torch_device", "to", "set_default_device"})
_NAMES_DEVICE = re.compile(r"cuda|gpu|device")
# What puts a model and its batches onto a device by itself, or only matters on one.
_PLACING = re.compile(
    r"Trainer|Accelerator|Fabric|Lightning|idist|deepspeed|deterministic|cud|gpu|xpu|mps|device", re.IGNORECASE
)


def runs_on_cpu(call: ast.Call, tensor: ast.expr | None, operands: Iterable[ast.expr], ctx: Context) -> bool:
    """Return whether `tensor`, what `call` works on, or one of its other operands is on the CPU.

    One is enough: an operator does not mix devices.
    """
    function = ctx.function(call)
    if function is not None and _ON_CPU.search(function.name):
        return True
    if _stays_on_cpu(tensor) or prepares_data(call, ctx) or _tests_on_cpu(ctx):
        return True
    if ctx.program is not None and _is_model_of_file(call, ctx) and ctx.module.project.once(_trains_on_cpu, ctx.module):
        return True
    if tensor is not None and _is_moved_to_cpu(tensor, ctx):
        return True
    return any(_comes_from_numpy(operand, ctx) for operand in operands)


def _tests_on_cpu(ctx: Context) -> bool:
    """Is the file a unit test that names no device? What it makes of numbers is on the CPU."""
    index = ctx.module.index
    if not _DEVICES.isdisjoint(index.names_used) or not is_unit_test(ctx.module):
        return False
    words = (constant.value for constant in index.of_type(ast.Constant))
    return not any(isinstance(word, str) and _NAMES_DEVICE.search(word) for word in words)


def _trains_on_cpu(module: Module) -> bool:
    """Does a file make its training steps itself, and hold no name of a device or of what chooses one?"""
    index = module.index
    if not file_trains(module) or "to" in index.names_used:
        return False
    words = (constant.value for constant in index.of_type(ast.Constant))
    texts = (word for word in words if isinstance(word, str) and len(word) < _LONGEST_WORD)
    return not any(_PLACING.search(name) for name in (*index.names_used, *index.root.bindings, *texts))


def _is_model_of_file(call: ast.Call, ctx: Context) -> bool:
    """Does a call stand in a class that its own file makes something of, and no other file may put on a device?"""
    owner = outermost_definition(ctx.module, call)
    if not isinstance(owner, ast.ClassDef) or owner.name not in ctx.module.index.calls_by_name:
        return False
    return not is_used_elsewhere(owner.name, ctx)


def _comes_from_numpy(operand: ast.expr, ctx: Context, steps: int = 4) -> bool:
    """`torch.from_numpy(rows)`, also as a view or by name; a copy to a device is no view."""
    if isinstance(operand, ast.Name):
        made = [binding.value for binding in ctx.module.definitions(operand)]
        return bool(made) and all(isinstance(node, ast.Call) and _comes_from_numpy(node, ctx, steps) for node in made)
    if not isinstance(operand, ast.Call) or steps == 0:
        return False
    if "torch.from_numpy" in ctx.callees(operand):
        return True
    function = operand.func
    if not isinstance(function, ast.Attribute):
        return False
    view = function.attr in _VIEWS or _only_converts(operand, function, ctx)
    return view and _comes_from_numpy(function.value, ctx, steps - 1)


def _only_converts(call: ast.Call, function: ast.Attribute, ctx: Context) -> bool:
    """`rows.to(torch.float)`: another dtype on the same device."""
    dtypes = [dtype_named(ctx.inference, argument) for argument in call.args]
    return function.attr == "to" and not call.keywords and bool(dtypes) and all(dtypes)


def _is_moved_to_cpu(tensor: ast.expr, ctx: Context, steps: int = 4) -> bool:
    """`labels` of `labels = labels.cpu()`, `labels.view(-1)` of that: the last move of a tensor was to the CPU."""
    if isinstance(tensor, ast.Name):
        bindings = ctx.module.definitions(tensor) if steps else ()
        made = [unpacked(binding) if binding.kind is BindingKind.ASSIGN else None for binding in bindings]
        return bool(made) and all(node is not None and _is_moved_to_cpu(node, ctx, steps - 1) for node in made)
    if isinstance(tensor, (ast.Subscript, ast.Attribute)):
        return _is_moved_to_cpu(tensor.value, ctx, steps)
    method = tensor.func if isinstance(tensor, ast.Call) else None
    if not isinstance(method, ast.Attribute) or not isinstance(tensor, ast.Call):
        return False
    if method.attr in _MOVES and not _only_converts(tensor, method, ctx):
        return any(ctx.constant(given) == "cpu" for given in arguments_of(tensor))
    return method.attr == "cpu" or _is_moved_to_cpu(method.value, ctx, steps)


def _stays_on_cpu(node: ast.AST | None) -> bool:
    """`labels.cpu().float()`, `labels.to("cpu")`: moved there in the same expression, and by no choice of a device."""
    if node is None or isinstance(node, ast.IfExp):
        return False
    if isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy"):
        return True
    if isinstance(node, ast.Constant):
        return node.value == "cpu"
    return any(map(_stays_on_cpu, ast.iter_child_nodes(node)))
