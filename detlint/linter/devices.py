"""Does a file put work on CUDA?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.context import Context
from detlint.linter.names import FUNCTIONS
from detlint.linter.nodes import walk
from detlint.linter.program import calls_named

# Who seeds the generators of CUDA, picks one of its devices or makes a tensor there means to work on it.
_MEANS_CUDA = re.compile(r"^torch\.cuda\.(set_device|manual_seed|manual_seed_all|\w+Tensor)$")
# Functions of a project that choose a device, perhaps among other settings.
_PREPARES = re.compile(r"device|config|setup|options|args", re.IGNORECASE)
_FRAMEWORKS = ("lightning.pytorch.Trainer", "accelerate.Accelerator", "lightning.fabric.Fabric", "lightning.Fabric")


def uses_cuda(ctx: Context) -> bool:
    """Return whether the file names a CUDA device, or hands the choice of one to a framework that prefers it."""
    index = ctx.module.index
    if any(_is_cuda(constant) for constant in index.of_type(ast.Constant)):
        return True
    if any(isinstance(call.func, ast.Attribute) for call in index.calls_by_name.get("cuda", ())):
        return True
    if any(_MEANS_CUDA.search(name) for node in _of_cuda(ctx) for name in ctx.resolve(node)):
        return True
    pickers = (call for name, calls in index.calls_by_name.items() if _PREPARES.search(name) for call in calls)
    if any(_picks_cuda(call, ctx) for call in pickers):
        return True
    frameworks = {ctx.inference.canonical(name) for name in _FRAMEWORKS}
    for call in calls_named(ctx.module, {name.rpartition(".")[2] for name in _FRAMEWORKS}):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        on_cpu = ctx.constant(given.get("accelerator")) == "cpu" or ctx.constant(given.get("cpu")) is True
        if not on_cpu and not frameworks.isdisjoint(ctx.callees(call)):
            return True
    return False


def _of_cuda(ctx: Context) -> Iterator[ast.Attribute]:
    """Yield `torch.cuda.set_device` and the like: attributes of something that is called cuda."""
    for node in ctx.module.index.of_type(ast.Attribute):
        owner = node.value
        if (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) == "cuda":
            yield node


def _picks_cuda(call: ast.Call, ctx: Context) -> bool:
    """Does a call run a function of the project that names a CUDA device: `device = pick_device()`?"""
    found = (ctx.module.project.definition(name) for name in ctx.callees(call))
    functions = [definition[1] for definition in found if definition is not None]
    return any(
        isinstance(part, ast.Constant) and _is_cuda(part)
        for function in functions
        if isinstance(function, FUNCTIONS)
        for part in walk(function)
    )


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
