"""Does a value decide anything? Follows a drawn value forward through variables and calls of models.

Example inputs for tracing, shapes, ports and pauses decide nothing: any other draw would have done.
"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.callers import given_on, is_used_elsewhere
from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_meant_to_fail
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.runs import PREDICTS
from detlint.linter.programs.called_models import is_model
from detlint.linter.randomness.identifiers import identifies, is_kept_as_id, is_sent_as_id, joins
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS
from detlint.linter.source.nodes import identifier
from detlint.randomness import load_sources

_DEPTH = 12
_EXPORTERS = (
    "torch.",
    "onnx.",
    "torch2trt.",
    "coremltools.",
    "torch_tensorrt.",
    "thop.",
    "ptflops.",
    "fvcore.",
    "openvino.",
    "torch_neuronx.",
    "torch_neuron.",
    "ai_edge_torch.",
)
# Methods called for an effect that no value has a part in.
_QUIET = frozenset({"requires_grad_", "retain_grad", "share_memory_", "pin_memory", "detach_", "record_stream"})
# What takes gradients: optimizers, and who reads them or keeps what they change.
_GRADIENTS = re.compile(r"^_?grads?$|step$|optim|clip_grad|register_\w*hook|state_dict|parameters$|^train|^fit$|^save")
_CONVERSIONS = frozenset(
    {"int", "str", "float", "abs", "round", "tuple", "list", "dict", "iter", "enumerate"}
    | {"numpy.array", "numpy.asarray"}
)


def decides(node: ast.expr, ctx: Context, depth: int = 0) -> bool:
    """Return whether anything but the form of the value matters to the program; True where that cannot be told."""
    if depth == 0 and (identifies(node, ctx) or is_meant_to_fail(node, ctx.module)):
        return False
    parent = ctx.parent(node)
    if depth > _DEPTH or parent is None:
        return True
    if _is_given_to_clock(node, ctx):
        return False
    if isinstance(parent, ast.Attribute):
        return _attribute_decides(parent, ctx, depth)
    if isinstance(parent, (ast.Call, ast.keyword)):
        call = parent if isinstance(parent, ast.Call) else ctx.parent(parent)
        return not isinstance(call, ast.Call) or _argument_decides(node, call, ctx, depth)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return _assigned_decides(parent, ctx, depth)
    if isinstance(parent, ast.Expr):
        return False
    if isinstance(parent, ast.Return):
        several = isinstance(node, (ast.Tuple, ast.List, ast.Dict))  # data, for whoever wants it
        results = given_on(node, ctx) if not several else []
        return not results or any(decides(result, where, depth + 1) for where, result in results)
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is not node or _rounds_decide(parent, ctx)
    if isinstance(parent, ast.Dict) and node in parent.values:
        key = parent.keys[parent.values.index(node)]
        nothing = _names_place(key, ctx) or is_sent_as_id(key, parent, ctx)
        return not nothing and decides(parent, ctx, depth + 1)
    if isinstance(parent, ast.Subscript) and parent.value is not node:
        return True
    if isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is node:
        return decides(parent, ctx, depth + 1)
    if isinstance(parent, (*COMPREHENSIONS, ast.Compare, ast.Yield, ast.YieldFrom)) or not isinstance(parent, ast.expr):
        return True
    return decides(parent, ctx, depth + 1)


def draws_decide(generator: ast.expr, ctx: Context, depth: int = 0) -> bool:
    """Return whether anything drawn from the generator that an expression makes matters; True where it is handed on."""
    if identifies(generator, ctx) or is_meant_to_fail(generator, ctx.module):
        return False
    parent = ctx.parent(generator)
    results = given_on(generator, ctx) if depth < _DEPTH else []
    if results:
        return any(draws_decide(result, where, depth + 1) for where, result in results)
    if isinstance(parent, ast.Call) and generator is not parent.func:  # `coolname.replace_random(Random())`
        return load_sources().indifferent.calls.isdisjoint(ctx.callees(parent))
    if isinstance(parent, ast.Attribute):
        draw = ctx.parent(parent)
        if not isinstance(draw, ast.Call) or draw.func is not parent or isinstance(ctx.parent(draw), ast.Expr):
            return True
        return decides(draw, ctx)
    binding = ctx.binding(generator)
    owner = ctx.module.index.scope_at(binding.node).lookup(binding.name) if binding is not None else None
    if binding is None or owner is None or not isinstance(owner.node, (*FUNCTIONS, ast.Module)):
        return True
    uses = ctx.module.flow(owner).uses(binding)
    if isinstance(owner.node, ast.Module) and (not uses or is_used_elsewhere(binding.name, ctx)):
        return True
    return any(draws_decide(use, ctx, depth + 1) for use in uses)


def _attribute_decides(attribute: ast.Attribute, ctx: Context, depth: int) -> bool:
    drawn_over = attribute.attr.endswith("_") and load_sources().draws.get(f"torch.Tensor.{attribute.attr}")
    if drawn_over or attribute.attr in load_sources().indifferent.attributes:
        return False  # `torch.rand(3).normal_(generator=g)`
    parent = ctx.parent(attribute)
    called = isinstance(parent, ast.Call) and parent.func is attribute
    if isinstance(parent, ast.Call) and called and isinstance(ctx.parent(parent), ast.Expr):
        if attribute.attr == "backward":
            return _reads_gradients(ctx)
        return attribute.attr not in _QUIET  # a method called for its effect: to_csv
    result = parent if called else attribute
    return decides(result, ctx, depth + 1) if isinstance(result, ast.expr) else True


def _reads_gradients(ctx: Context) -> bool:
    """Does a file make a step with the gradients that it computes, look at them, or hold what might?"""
    return any(_GRADIENTS.search(name) for name in ctx.module.index.names_used)


def _argument_decides(argument: ast.expr, call: ast.Call, ctx: Context, depth: int) -> bool:
    """A model's output decides what its input decides; an unknown function may do anything with it."""
    table = load_sources().indifferent
    names = ctx.callees(call)
    if any(name in table.calls for name in names) or _measures(call.func):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr in table.attributes:
        return False
    if joins(call) and is_kept_as_id(call, ctx):
        return False
    converts = any(name.removeprefix("builtins.") in _CONVERSIONS for name in names) or joins(call)
    converts = converts or not ctx.inference.types.bars.isdisjoint(names)
    computes = (bool(names) and all(name.startswith("torch.") for name in names)) or _only_keeps(names, ctx)
    if converts or (computes and not isinstance(ctx.parent(call), ast.Expr)) or _is_model(call, ctx):
        return decides(call, ctx, depth + 1)
    return _parameter_decides(argument, call, ctx, depth)


def _parameter_decides(argument: ast.expr, call: ast.Call, ctx: Context, depth: int) -> bool:
    """Does anything that a function of the project does with what it is given decide? What is unread may do so.

    So may a method, which another class may replace.
    """
    found = [ctx.module.project.definition(name) for name in ctx.callees(call)]
    owner, function = found[0] if len(found) == 1 and found[0] is not None else (ctx.module, None)
    if not isinstance(function, FUNCTIONS):
        return True
    name = parameter_given(function, call, argument, skip_self=False)
    bindings = owner.index.scopes[function].bindings.get(name or "", ())
    if len(bindings) != 1 or owner.index.class_at(function) is not None:
        return True
    where = ctx.elsewhere(owner)
    return any(decides(use, where, depth + 1) for use in owner.flow(bindings[0].scope).uses(bindings[0]))


def _only_keeps(names: tuple[str, ...], ctx: Context) -> bool:
    """`Vector3dVector(points)`: an object of another library, which does something with a value when it is asked to."""
    lasts = [name.rpartition(".")[2] for name in names]
    classes = bool(lasts) and all(last[:1].isupper() and not last.isupper() for last in lasts)
    return classes and all(ctx.module.project.definition(name) is None for name in names)


def _measures(function: ast.expr) -> bool:
    """Does a function only measure or trace the model it gets, going by its name?"""
    name = identifier(function)
    return bool(load_sources().indifferent.measures(name))


def _is_given_to_clock(node: ast.expr, ctx: Context) -> bool:
    """`speed(lambda: model(x))`, `profiling.peak(lambda: model(x))`: what comes out is thrown away."""
    for around in ctx.ancestors(node):
        if isinstance(around, ast.stmt):
            return False
        call = ctx.parent(around) if isinstance(around, ast.Lambda) else None
        if isinstance(call, ast.Call) and call.func is not around:
            names = [identifier(call.func), *(part for name in ctx.callees(call) for part in name.split("."))]
            return any(map(load_sources().indifferent.measures, names))
    return False


def _is_model(call: ast.Call, ctx: Context) -> bool:
    """Is what is called a module, a variable that holds some unknown callable, or a method by which models predict?"""
    function = call.func
    if {value.kind for value in ctx.values(function)} == {Kind.MODULE}:
        return True
    if isinstance(function, ast.Attribute):
        return PREDICTS.match(function.attr) is not None or is_model(ctx.module, call)
    return isinstance(function, ast.Name) and not ctx.resolve(function)


def _assigned_decides(statement: ast.Assign | ast.AnnAssign | ast.NamedExpr, ctx: Context, depth: int) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(_target_decides(target, ctx, depth) for target in targets)


def _target_decides(target: ast.expr, ctx: Context, depth: int) -> bool:
    table = load_sources().indifferent
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_target_decides(element, ctx, depth) for element in target.elts)
    if isinstance(target, ast.Subscript):
        return not (_names_place(target.slice, ctx) or _names_column(target.slice, ctx))
    if isinstance(target, ast.Attribute):
        return not table.names(target.attr)
    if not isinstance(target, ast.Name) or table.names(target.id):
        return not isinstance(target, ast.Name)
    scope = ctx.module.index.scope_at(target).lookup(target.id)
    bindings = scope.bindings[target.id] if scope is not None else ()
    binding = next((found for found in bindings if found.node is target), None)
    if scope is None or binding is None or not isinstance(scope.node, (*FUNCTIONS, ast.Module)):
        return True
    uses = ctx.module.flow(scope).uses(binding)
    if any(_is_example(use, ctx) for use in uses):
        return False
    if any(decides(use, ctx, depth + 1) for use in uses):
        return True
    return isinstance(scope.node, ast.Module) and is_used_elsewhere(target.id, ctx)


def _rounds_decide(loop: ast.For | ast.comprehension, ctx: Context) -> bool:
    """`for batch in loader: count += 1` counts rounds, and so does one that asks for `batch["image"].shape`."""
    targets = [part for part in ast.walk(_item_target(loop, ctx)) if isinstance(part, ast.Name)]
    bindings = [found for part in targets for found in ctx.module.index.bindings_of(part) if found.node is part]
    uses = [use for binding in bindings for use in ctx.module.flow(binding.scope).uses(binding)]
    return len(bindings) < len(targets) or not all(_is_asked_for_form(use, ctx) for use in uses)


def _item_target(loop: ast.For | ast.comprehension, ctx: Context) -> ast.expr:
    """Return `batch` of `for i, batch in enumerate(loader)`: the numbers are the same in any order."""
    numbered = isinstance(loop.iter, ast.Call) and "builtins.enumerate" in ctx.callees(loop.iter)
    return loop.target.elts[-1] if numbered and isinstance(loop.target, ast.Tuple) else loop.target


def _is_asked_for_form(use: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(use)
    if isinstance(parent, ast.Subscript) and parent.value is use:
        return _is_asked_for_form(parent, ctx)
    if isinstance(parent, ast.Attribute):
        return parent.attr in load_sources().indifferent.attributes
    return isinstance(parent, ast.Call) and "builtins.len" in ctx.callees(parent)


def _names_place(key: ast.expr | None, ctx: Context) -> bool:
    name = ctx.constant(key)
    return isinstance(name, str) and load_sources().indifferent.names(name)


def _names_column(key: ast.expr, ctx: Context) -> bool:
    """`table.loc[rows, "color"]`: each row of a table has one of the `colors`."""
    name = ctx.constant(key.elts[-1]) if isinstance(key, ast.Tuple) and key.elts else None
    return isinstance(name, str) and load_sources().indifferent.names(f"{name}s")


def _is_example(use: ast.expr, ctx: Context) -> bool:
    """Is this an example input for export or tracing? What else is done with one is a comparison of the two models."""
    parent = ctx.parent(use)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Starred, ast.keyword, ast.Attribute, ast.Dict)):
        parent = ctx.parent(parent)
    if not isinstance(parent, ast.Call):
        return False
    calls = load_sources().indifferent.calls
    return any(name in calls and name.startswith(_EXPORTERS) for name in ctx.callees(parent))
