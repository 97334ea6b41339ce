"""Does a file put work on CUDA?"""

from __future__ import annotations

import ast

from detlint.linter.context import Context
from detlint.linter.program import calls_named

_FRAMEWORKS = ("lightning.pytorch.Trainer", "accelerate.Accelerator", "lightning.fabric.Fabric", "lightning.Fabric")


def uses_cuda(ctx: Context) -> bool:
    """Return whether the file names a CUDA device, or hands the choice of one to a framework that prefers it."""
    index = ctx.module.index
    if any(_is_cuda(constant) for constant in index.of_type(ast.Constant)):
        return True
    if any(isinstance(call.func, ast.Attribute) for call in index.calls_by_name.get("cuda", ())):
        return True
    for call in calls_named(ctx.module, {name.rpartition(".")[2] for name in _FRAMEWORKS}):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        on_cpu = ctx.constant(given.get("accelerator")) == "cpu" or ctx.constant(given.get("cpu")) is True
        if not on_cpu and any(name in _FRAMEWORKS for name in ctx.callees(call)):
            return True
    return False


def moves_to_cuda(call: ast.Call, ctx: Context) -> bool:
    """Return whether a call starts CUDA: `.cuda()`, `.to("cuda")`, `torch.zeros(3, device="cuda")`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    named = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "device")]
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    creates = any(keyword.arg == "device" for keyword in call.keywords)
    return (method or creates) and any(_is_cuda(value) for value in named)


def _is_cuda(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value == "cuda" or node.value.startswith("cuda:"))
    )
