"""Layers that are built where they are applied instead of in `__init__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.built import is_anew_at_each_call, is_applied, runs_with_forward, stored_on_self
from detlint.linter.context import Call, Context
from detlint.linter.names import FunctionNode, unpacked
from detlint.linter.nodes import walk
from detlint.linter.registry import check
from detlint.linter.testcode import is_test_file
from detlint.linter.training import guarded_by_mode, trains

_RANDOM = frozenset(
    f"torch.{name}" for name in ("rand", "randn", "rand_like", "randn_like", "normal", "empty", "Tensor", "FloatTensor")
)


@check("DET203")
def dropout_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the layer is switched by hand, handed on, or only reached in train mode."""
    function = ctx.function(call.node)
    if function is None or function.name == "__init__" or is_test_file(ctx.module) or trains(function):
        return
    rate = call.argument("p")
    if rate.value is not None and ctx.constant(rate.value) in (0, 0.0):
        return
    if guarded_by_mode(ctx.module, call.node) or not is_applied(call.node, function, ctx):
        return
    yield ctx.finding(call.node, layer=call.name.rpartition(".")[2])


@check("DET207")
def parameters_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the weights are loaded or written over, and where the layer is handed on or built only once."""
    function = ctx.function(call.node)
    if function is None or is_test_file(ctx.module) or trains(function):
        return
    if call.name == "torch.nn.Parameter":
        if not runs_with_forward(function, ctx) or not _is_random(call.argument("data").value, ctx):
            return
        if _used(call.node, function, ctx):
            yield ctx.finding(call.node, layer="this parameter")
        return
    if is_anew_at_each_call(call.node, function, ctx):
        yield ctx.finding(call.node, layer=f"this {call.name.rpartition('.')[2]}")


def _used(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether a parameter is put to use in the function, and not registered or guarded."""
    binding = ctx.binding(node)
    if binding is not None:
        uses = ctx.flow(node).uses(binding)
        return bool(uses) and not any(_is_handed_on(use, ctx) for use in uses)
    parent = ctx.parent(node)
    if isinstance(parent, ast.BinOp):
        return True
    if isinstance(parent, ast.Call):
        return not _is_handed_on(node, ctx)
    return stored_on_self(node, function, ctx) is not None


def _is_handed_on(use: ast.expr, ctx: Context) -> bool:
    """Is it returned, registered, or kept under another name or in a collection?"""
    parent = ctx.parent(use)
    if isinstance(parent, ast.Call):
        return any(word in ast.unparse(parent.func) for word in ("register", "setattr", "append"))
    return isinstance(parent, (ast.Return, ast.Assign, ast.Tuple, ast.List, ast.Dict))


def _is_random(data: ast.expr | None, ctx: Context) -> bool:
    if data is None:
        return False
    if isinstance(data, ast.Name):
        return any(_is_random(unpacked(binding), ctx) for binding in ctx.module.definitions(data))
    calls = (part for part in walk(data) if isinstance(part, ast.Call))
    return any(_RANDOM.intersection(ctx.resolve(call.func)) for call in calls)
