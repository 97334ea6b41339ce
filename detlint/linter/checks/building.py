"""Layers that are built where they are applied instead of in `__init__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.findings import Finding
from detlint.linter.classes import ClassInfo
from detlint.linter.context import Call, Context
from detlint.linter.names import FunctionNode
from detlint.linter.nodes import walk
from detlint.linter.registry import check
from detlint.linter.testcode import is_test_file
from detlint.linter.training import guarded_by_mode, trains

# Methods that return the module they are called on and leave its mode and its weights alone.
_TRANSPARENT = frozenset(
    {"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "xpu", "requires_grad_", "type_as"}
)
_RUNS = frozenset(
    {"forward", "__call__", "forward_features", "training_step", "validation_step", "test_step", "predict_step"}
)
_RANDOM = frozenset(
    f"torch.{name}" for name in ("rand", "randn", "rand_like", "randn_like", "normal", "empty", "Tensor", "FloatTensor")
)


@dataclass(frozen=True, slots=True)
class _Built:
    """A module that a function builds: the whole expression, and whether it is applied in the same expression."""

    expression: ast.expr
    at_once: bool


@check("DET203")
def dropout_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the layer is switched by hand, handed on, or only reached in train mode."""
    function = ctx.function(call.node)
    if function is None or function.name == "__init__" or is_test_file(ctx.module) or trains(function):
        return
    rate = call.argument("p")
    if rate.value is not None and ctx.constant(rate.value) in (0, 0.0):
        return
    if guarded_by_mode(ctx.module, call.node) or not _applied(call.node, function, ctx):
        return
    yield ctx.finding(call.node, layer=call.name.rpartition(".")[2])


@check("DET207")
def parameters_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the weights are loaded or written over, and where the layer is handed on or built only once."""
    function = ctx.function(call.node)
    if function is None or is_test_file(ctx.module) or trains(function):
        return
    if call.name == "torch.nn.Parameter":
        if not _runs_with_forward(function, ctx) or not _is_random(call.argument("data").value, ctx):
            return
        if _used(call.node, function, ctx):
            yield ctx.finding(call.node, layer="this parameter")
        return
    built = _built(call.node, ctx)
    runs = _runs_with_forward(function, ctx)
    if not runs and not (
        built.at_once and ctx.module.index.class_at(function) is None and _takes_input(built, function)
    ):
        return
    if _applied(call.node, function, ctx):
        yield ctx.finding(call.node, layer=f"this {call.name.rpartition('.')[2]}")


def _built(node: ast.expr, ctx: Context) -> _Built:
    """Climb from a constructor through `.to(…)` and nn.Sequential to the whole module, and see if that is called."""
    expression = node
    while True:
        parent = ctx.parent(expression)
        around = ctx.parent(parent) if parent is not None else None
        if isinstance(parent, ast.Call) and parent.func is expression:
            return _Built(expression, True)
        if isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and parent.attr in _TRANSPARENT:
            expression = around
        elif isinstance(parent, ast.Call) and "torch.nn.Sequential" in ctx.resolve(parent.func):
            expression = parent
        else:
            return _Built(expression, False)


def _applied(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function calls the module it builds, keeps it to itself and leaves it as it was built."""
    built = _built(node, ctx)
    if built.at_once:
        return True
    binding = ctx.binding(built.expression)
    if binding is not None:
        uses = ctx.flow(node).uses(binding)
        return any(_is_called(use, ctx) for use in uses) and all(_is_called(use, ctx, or_moved=True) for use in uses)
    attribute = _stored(built.expression, function, ctx) if _runs_with_forward(function, ctx) else None
    return attribute is not None and any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and ast.unparse(part.func) == attribute
        for part in walk(function)
    )


def _used(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether a parameter is put to use in the function, and not registered or guarded."""
    binding = ctx.binding(node)
    if binding is not None:
        uses = ctx.flow(node).uses(binding)
        return bool(uses) and not any(isinstance(ctx.parent(use), (ast.Return, ast.Assign)) for use in uses)
    parent = ctx.parent(node)
    if isinstance(parent, ast.BinOp):
        return True
    if isinstance(parent, ast.Call):
        return not any(word in ast.unparse(parent.func) for word in ("register", "setattr", "append"))
    return _stored(node, function, ctx) is not None


def _is_called(use: ast.expr, ctx: Context, *, or_moved: bool = False) -> bool:
    parent = ctx.parent(use)
    if isinstance(parent, ast.Call) and parent.func is use:
        return True
    return or_moved and isinstance(parent, ast.Attribute) and parent.attr in _TRANSPARENT


def _stored(expression: ast.expr, function: FunctionNode, ctx: Context) -> str | None:
    """Return the `self.name` that an expression is assigned to at every call, no condition around it."""
    statement = ctx.parent(expression)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not expression:
        return None
    target = statement.targets[0]
    around = [node for node in ctx.ancestors(statement) if isinstance(node, (ast.If, ast.Try, ast.For, ast.While))]
    if not isinstance(target, ast.Attribute) or any(function in ctx.ancestors(node) for node in around):
        return None
    touched = f"{ast.unparse(target)}."
    if any(isinstance(part, ast.Attribute) and ast.unparse(part).startswith(touched) for part in walk(function)):
        return None
    return ast.unparse(target) if statement in function.body else None


def _takes_input(built: _Built, function: FunctionNode) -> bool:
    """Return whether what `built` is applied to comes from a parameter of the function."""
    names = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(built.expression))


def _runs_with_forward(function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function is a module's forward, or a method of the module that forward calls."""
    owner = ctx.parent(function)
    if not isinstance(owner, ast.ClassDef) or not ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return False
    info = ctx.inference.class_info(owner)
    reached = ctx.module.project.once(_run_with_forward, info)
    return function.name in reached and info.methods.get(function.name) is function


def _run_with_forward(info: ClassInfo) -> list[str]:
    methods = info.methods
    reached = [name for name in methods if name in _RUNS]
    for name in reached:
        for part in walk(methods[name]):
            called = part.attr if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "self" else ""
            if called in methods and called not in reached:
                reached.append(called)
    return reached


def _is_random(data: ast.expr | None, ctx: Context) -> bool:
    if data is None:
        return False
    calls = (part for part in walk(data) if isinstance(part, ast.Call))
    return any(_RANDOM.intersection(ctx.resolve(call.func)) for call in calls)
