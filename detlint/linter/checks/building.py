"""Layers that are built where they are applied instead of in `__init__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.layers import load_layers
from detlint.linter.analysis.built import (
    given_anew,
    is_anew_at_each_call,
    is_anew_in_lambda,
    is_applied,
    is_shared,
    moved,
    runs_with_forward,
    stored_on_self,
)
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.layers import ModelParts, switches_itself
from detlint.linter.modes.switches import switches_any
from detlint.linter.programs.left_on import is_called_in_training_only
from detlint.linter.programs.training import spared_by_mode, trains
from detlint.linter.randomness.random_states import stands_for_token, starts_recurrence
from detlint.linter.randomness.random_weights import fills_at_random, gives_random, is_random, starts_random
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own

_DRAWS = frozenset({"rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform_"}) | {
    f"{scheme}_"
    for scheme in ("kaiming_normal", "kaiming_uniform", "orthogonal", "trunc_normal", "xavier_normal", "xavier_uniform")
}
_BUILT = "it is built where it is applied"
_SHARED = "it is a variable of the file, which registers nothing"


@check("DET203")
def dropout_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the layer is switched by hand, handed on, or only reached in train mode."""
    function = ctx.function(call.node)
    if is_test_file(ctx.module) or (function is not None and trains(function)):
        return
    if function is not None and is_called_in_training_only(function, ctx):
        return
    layer = load_layers().layers.get(call.name)
    rate = call.argument(layer.rate).value if layer is not None and layer.rate else None
    if rate is not None and ctx.constant(rate) in (0, 0.0):
        return
    shown = f"this {call.name.rpartition('.')[2]}"
    if function is None and is_shared(call.node, ctx):
        yield ctx.finding(call.node, layer=shown, reason=_SHARED)
    elif not spared_by_mode(ctx.module, call.node) and _is_built_in_call(call.node, function, ctx):
        yield ctx.finding(call.node, layer=shown, reason=_BUILT)


@check("DET207")
def parameters_built_in_forward(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the weights are loaded or written over, and where the layer is handed on or built only once."""
    function = ctx.function(call.node)
    if function is None or is_test_file(ctx.module) or trains(function):
        return
    if call.name == "torch.nn.Parameter":
        if not runs_with_forward(function, ctx.module) or not is_random(call.argument("data").value, ctx):
            return
        if _used(moved(call.node, ctx), function, ctx):
            yield ctx.finding(call.node, layer="this parameter", values="weights")
        return
    if is_anew_at_each_call(call.node, function, ctx) or is_anew_in_lambda(call.node, ctx):
        yield ctx.finding(call.node, layer=f"this {call.name.rpartition('.')[2]}", values="weights")


@check_file("DET203")
def project_dropout_built_in_forward(ctx: Context) -> Iterator[Finding]:
    """A layer of the project that holds dropout or batch norm, built and applied in a forward pass."""
    for made in _made_in_forward(ctx):
        if not spared_by_mode(ctx.module, made.call) and made.depends_on_mode(ctx):
            yield ctx.finding(made.call, layer=made.shown, reason=_BUILT)


@check_file("DET207")
def project_layer_built_in_forward(ctx: Context) -> Iterator[Finding]:
    """A layer of the project that starts with random weights, built and applied in a forward pass."""
    for made in _made_in_forward(ctx):
        if made.starts_random(ctx):
            yield ctx.finding(made.call, layer=made.shown, values="weights")


@check("DET207", calls=_DRAWS)
def random_state_in_forward(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """An initial state of a recurrent layer, or a token of the model, that each forward pass draws anew."""
    if is_test_file(ctx.module) or spared_by_mode(ctx.module, call):
        return
    around = ctx.parent(call)
    first = not isinstance(around, ast.Tuple) or around.elts[0] is call  # one finding for both states of an LSTM
    if not first or not (fills_at_random(call, ctx) if identifier(call.func).endswith("_") else is_random(call, ctx)):
        return
    if starts_recurrence(call, ctx):
        yield ctx.finding(call, layer="this initial state", values="numbers")
    elif stands_for_token(call, ctx):
        yield ctx.finding(call, layer="this token", values="numbers")


@dataclass(frozen=True, slots=True)
class _Made:
    """A call in a forward pass that makes a layer which is applied there: its class, or the function that makes it."""

    call: ast.Call
    maker: ClassInfo | tuple[Context, FunctionNode]

    @property
    def shown(self) -> str:
        if isinstance(self.maker, ClassInfo):
            return f"this {self.maker.node.name}"
        called = "" if _is_property(*self.maker) else "()"
        return f"what {self.maker[1].name}{called} gives"

    def depends_on_mode(self, ctx: Context) -> bool:
        parts = ModelParts(functional=False)
        if isinstance(self.maker, ClassInfo) or not _is_property(*self.maker):
            return parts.made_by(ctx.module, self.call) is Truth.YES
        where, method = self.maker
        return any(parts.made_by(where.module, call) is Truth.YES for call in given_anew(method, where))

    def starts_random(self, ctx: Context) -> bool:
        if isinstance(self.maker, ClassInfo):
            return starts_random(self.maker, ctx)
        return gives_random(self.maker[1], self.maker[0])


def _made_in_forward(ctx: Context) -> Iterator[_Made]:
    """Yield the layers of the project that forward passes make and apply."""
    for call, function in ctx.module.project.once(_calls_of_forward, ctx.module):
        maker = (
            _layer_of_project(call, function, ctx)
            or _maker_of_project(call, function, ctx)
            or _property_of_project(call, ctx)
        )
        if maker is not None:
            yield _Made(call, maker)


def _calls_of_forward(module: Module) -> tuple[tuple[ast.Call, FunctionNode], ...]:
    """Return the calls in functions that each forward pass runs, with the function around each."""
    if is_test_file(module):
        return ()
    functions = {
        function
        for function in module.index.of_type(ast.FunctionDef)
        if function.name != "__init__" and runs_with_forward(function, module) and not trains(function)
    }
    around = ((call, module.index.function_at(call)) for call in module.index.of_type(ast.Call) if functions)
    return tuple((call, function) for call, function in around if function in functions)


def _layer_of_project(call: ast.Call, function: FunctionNode, ctx: Context) -> ClassInfo | None:
    """Return the project's module class that a call in a forward pass makes an instance of, to apply it there."""
    if not identifier(call.func)[:1].isupper() or not is_applied(call, function, ctx):
        return None
    names = ctx.callees(call)
    made = ctx.inference.class_named(names[0]) if len(names) == 1 else None
    known = made is not None and ctx.inference.is_module_class(made.name) and not switches_itself(made)
    return made if known else None


def _maker_of_project(call: ast.Call, function: FunctionNode, ctx: Context) -> tuple[Context, FunctionNode] | None:
    """`self._project(8)(x)`: return the function of the project that a forward pass has a new layer made by."""
    if identifier(call.func)[:1].isupper() or _is_a_result(call, ctx):
        return None
    found = list(functions_called(ctx.inference, call))
    if len(found) != 1 or not is_applied(call, function, ctx) or switches_any(*found[0]):
        return None
    where = ctx.elsewhere(found[0][0])
    return (where, found[0][1]) if given_anew(found[0][1], where) else None


def _property_of_project(call: ast.Call, ctx: Context) -> tuple[Context, FunctionNode] | None:
    """`self.dropout(x)`, where `dropout` is a property: return the function that makes a new layer each time."""
    owner = ctx.module.index.class_at(call) if is_own(call.func) else None
    if owner is None:
        return None
    name = identifier(call.func)
    info = next((each for each in ctx.inference.mro(ctx.inference.class_info(owner)) if name in each.methods), None)
    where = ctx.elsewhere(info.module) if info is not None else ctx
    method = info.methods[name] if info is not None else None
    if method is None or not _is_property(where, method) or switches_any(where.module, method):
        return None
    return (where, method) if given_anew(method, where) else None


def _is_property(where: Context, method: FunctionNode) -> bool:
    return "builtins.property" in where.inference.decorators(method)


def _is_a_result(call: ast.Call, ctx: Context) -> bool:
    """`x = self.lift(x)`, where nothing called `x` is called, there or by a helper: soon seen, of most calls."""
    parent = ctx.parent(call)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        called = name in ctx.module.index.calls_by_name
        return not called and not ctx.module.project.once(_is_given_to_helper, (name, ctx.module))
    return isinstance(parent, (ast.Return, ast.BinOp, ast.Compare, ast.Expr, ast.keyword))


def _is_given_to_helper(asked: tuple[str, Module]) -> bool:
    """Does a file pass a variable of this name to a function of the project: `layer` of `apply(layer, x)`?"""
    name, module = asked
    parents = module.index.parents
    around = (parents.get(use) for use in module.index.names_used.get(name, ()) if isinstance(use, ast.Name))
    calls = (parents.get(each) if isinstance(each, ast.keyword) else each for each in around)
    found = (functions_called(module.inference, call) for call in calls if isinstance(call, ast.Call))
    return any(True for functions in found for _ in functions)


def _is_built_in_call(node: ast.expr, function: FunctionNode | None, ctx: Context) -> bool:
    """Does a function or a lambda build a layer and apply it at once?"""
    own = function is not None and function.name != "__init__" and is_applied(node, function, ctx)
    return own or is_anew_in_lambda(node, ctx)


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
