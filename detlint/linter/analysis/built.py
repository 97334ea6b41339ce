"""Modules that a function builds: what of them it applies, and whether it does so at every forward pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from detlint.linter.analysis.built_lists import taken_out
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, is_own, walk

# Methods that return the module they are called on and leave its mode and its weights alone.
_TRANSPARENT = frozenset(
    {"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "xpu", "requires_grad_", "type_as"}
)
# Modules that are made of others.
_WHOLES = frozenset({"torch.nn.Sequential", "torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"})
# Functions of torch.nn.init that draw.
_RANDOM = re.compile(r"uniform|normal|orthogonal|sparse")
_PLAIN = ("staticmethod", "property")  # decorators that keep nothing
_RUNS = frozenset(
    {"forward", "__call__", "forward_features", "training_step", "validation_step", "test_step", "predict_step"}
)


@dataclass(frozen=True, slots=True)
class _Built:
    """A module that a function builds: the whole expression, and the call that applies it in the same expression."""

    expression: ast.expr
    run: ast.Call | None = None


def _built(node: ast.expr, ctx: Context) -> _Built:
    """Climb from a constructor through `.to(…)`, nn.Sequential and choices to the whole, and see if that is called."""
    expression = node
    while True:
        parent = ctx.parent(expression)
        around = ctx.parent(parent) if parent is not None else None
        if isinstance(parent, ast.Call) and parent.func is expression:
            return _Built(expression, parent)
        if isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and around.func is parent:
            if parent.attr in ("forward", "__call__"):
                return _Built(expression, around)
            if parent.attr not in _TRANSPARENT:
                return _Built(expression)
            expression = around
        elif _is_whole(parent, expression, ctx):
            expression = parent
        else:
            return _Built(expression)


def _is_whole(whole: ast.AST | None, part: ast.expr, ctx: Context) -> TypeGuard[ast.expr]:
    """`nn.Sequential(part, …)`, `nn.TransformerEncoder(part, 6)`, `part if rate else nn.Identity()`."""
    if isinstance(whole, ast.IfExp):
        return part is not whole.test
    return isinstance(whole, ast.Call) and not _WHOLES.isdisjoint(ctx.resolve(whole.func))


def moved(node: ast.expr, ctx: Context) -> ast.expr:
    """Return what a module or parameter is once it is moved and converted: the whole of `nn.Parameter(…).to(x)`."""
    return _built(node, ctx).expression


def made_before_moves(node: ast.expr) -> ast.expr:
    """Return the call that makes a module that is moved and converted at once: `Net()` of `Net().to(device).half()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRANSPARENT:
        node = node.func.value
    return node


def is_applied(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function calls the module it builds, keeps it to itself and leaves it as it was built."""
    runs = list(_runs(node, ctx))
    if runs and None not in runs:
        return True
    made = _built(node, ctx)
    attribute = stored_on_self(made.expression, function, ctx) if runs_with_forward(function, ctx.module) else None
    return attribute is not None and any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and ast.unparse(part.func) == attribute
        for part in walk(function)
    )


def is_anew_at_each_call(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether each forward pass builds and applies a module, or each call of a function that acts as a layer."""
    layer = function.name != "__init__" and _takes_input(node, function, ctx)
    return (layer or runs_with_forward(function, ctx.module)) and is_applied(node, function, ctx)


def is_anew_in_lambda(node: ast.expr, ctx: Context) -> bool:
    """`self.project = lambda x: nn.Linear(8, 8)(x)`: does each call of an attribute of a module build and apply it?"""
    run = _built(node, ctx).run
    for around in ctx.ancestors(run) if run is not None else ():
        if isinstance(around, ast.Lambda):
            statement, owner = ctx.parent(around), ctx.module.index.class_at(around)
            kept = isinstance(statement, ast.Assign) and any(map(is_own, statement.targets))
            return kept and owner is not None and ctx.inference.is_module_class(ctx.module.qualified(owner))
        if isinstance(around, FUNCTIONS):
            return False
    return False


def given_anew(function: FunctionNode, ctx: Context) -> list[ast.Call]:
    """Return the calls by which a function makes what it returns, anew each time; nothing if it may keep one."""
    returns = list(ctx.module.flow(ctx.module.index.scopes[function]).returns())
    given = [branch for statement in returns if statement.value for branch in _branches(statement.value)]
    named = [only_value(ctx.module, value) if isinstance(value, ast.Name) else None for value in given]
    only = [made or value for made, value in zip(named, given, strict=True)]  # what an attribute keeps is not made anew
    made = [value for value in only if isinstance(value, ast.Call)]
    plain = all(identifier(decorator) in _PLAIN for decorator in function.decorator_list)
    plain = plain and all(statement.value is not None for statement in returns)
    modules = all(value.kind is Kind.MODULE for call in made for value in ctx.values(call))
    return made if plain and modules and len(made) == len(given) else []


def _branches(node: ast.expr) -> list[ast.expr]:
    """`nn.Dropout(p) if p else nn.Identity()` may be either."""
    return [*_branches(node.body), *_branches(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def is_shared(node: ast.expr, ctx: Context) -> bool:
    """`DROP = nn.Dropout(0.1)` of a file, which forward passes call, and nothing registers or switches?"""
    binding = ctx.binding(moved(node, ctx))
    if binding is None or not isinstance(binding.scope.node, ast.Module) or not isinstance(binding.node, ast.Name):
        return False
    uses = list(ctx.module.index.uses_of(binding.node))
    calls = [call for use in uses if isinstance(call := ctx.parent(use), ast.Call) and call.func is use]
    functions = [function for call in calls if (function := ctx.function(call)) is not None]
    in_forward = any(runs_with_forward(function, ctx.module) for function in functions)
    return in_forward and len(calls) == len([use for use in uses if isinstance(use.ctx, ast.Load)])


def _takes_input(node: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """Return whether what a module is applied to comes from a parameter of the function.

    One that is applied where it is made is one for this input where it is made for it: `nn.Linear(x.size(-1), out)(x)`.
    """
    names = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    made = _built(node, ctx)
    if made.run is not None:
        return _names_any(names, [made.expression]) and _names_any(names, made.run.args)
    runs = [run for run in _runs(node, ctx) if run is not None and _is_handed_on(run, names, ctx)]
    return _names_any(_with_computed(names, function, ctx), [value for run in runs for value in run.args])


def _with_computed(names: set[str], function: FunctionNode, ctx: Context) -> set[str]:
    """Return names and those of what torch makes of them in a function: `rows = torch.cat([x, y], 1)`."""
    names = set(names)
    for part in walk(function):
        value = part.value if isinstance(part, ast.Assign) else None
        if not isinstance(part, ast.Assign) or not isinstance(value, ast.Call) or not _names_any(names, value.args):
            continue
        if not ctx.inference.types.tensors.isdisjoint(ctx.callees(value)):
            names.update(target.id for target in part.targets if isinstance(target, ast.Name))
    return names


def _names_any(names: set[str], values: list[ast.expr]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for value in values for part in walk(value))


def _is_handed_on(run: ast.expr, names: set[str], ctx: Context) -> bool:
    """`x = conv(x)`, `return conv(x).relu()`: what a layer does; tests and examples compare and show what comes out."""
    parent = ctx.parent(run)
    while isinstance(parent, (ast.Attribute, ast.IfExp)) or (isinstance(parent, ast.Call) and parent.func is run):
        run, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in names for target in parent.targets)
    return isinstance(parent, ast.Return)


def _runs(node: ast.expr, ctx: Context, steps: int = 5) -> Iterator[ast.Call | None]:
    """Yield the calls of a module that a function builds, and None for each use of it that is something else.

    It may get another name on the way, `layer = layer.to(x.device)`. To move it in place, or to draw its weights
    from another distribution, is no use of it.
    """
    made = _built(node, ctx)
    if made.run is not None:
        yield made.run
        return
    if _is_drawn_anew(node, ctx) or _is_asked_for(node, ctx):
        return
    if made.expression is not node and isinstance(ctx.parent(made.expression), ast.Expr):
        return
    binding = ctx.binding(made.expression)
    if steps == 0:
        yield None
        return
    inside = _run_by_helper(made.expression, ctx, steps - 1) if binding is None else None
    if inside is not None:
        yield from inside
        return
    for use in ctx.flow(node).uses(binding) if binding is not None else taken_out(made.expression, ctx):
        if use is None:
            yield None
        else:
            yield from _runs(use, ctx, steps - 1)


def _run_by_helper(given: ast.expr, ctx: Context, steps: int) -> list[ast.Call | None] | None:
    """`apply(layer, x)`: a function of the project that calls what it is given runs it, one that returns it moves it.

    None where a module is given to no such function.
    """
    parent = ctx.parent(given)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    found = list(functions_called(ctx.inference, call)) if isinstance(call, ast.Call) and call.func is not given else []
    if not isinstance(call, ast.Call) or len(found) != 1:
        return None
    module, function = found[0]
    name = parameter_given(function, call, given, skip_self=isinstance(call.func, ast.Attribute))
    scope, where = module.index.scopes[function], ctx.elsewhere(module)
    bindings = scope.bindings.get(name, ()) if name is not None else ()
    if not bindings:
        return None
    runs: list[ast.Call | None] = []
    for use in module.flow(scope).uses(bindings[0]):
        if isinstance(where.parent(_built(use, where).expression), ast.Return):
            runs += _runs(call, ctx, steps)
        else:
            runs += [call if run is not None else None for run in _runs(use, where, steps)]
    return runs


def _is_asked_for(use: ast.expr, ctx: Context) -> bool:
    """`if layer is not None:`."""
    test = ctx.parent(use)
    return isinstance(test, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)


def _is_drawn_anew(use: ast.expr, ctx: Context) -> bool:
    """`nn.init.xavier_uniform_(layer.weight)` makes random weights of random ones; its bias may be anything."""
    weights = ctx.parent(use)
    call = ctx.parent(weights) if isinstance(weights, ast.Attribute) and weights.attr in ("weight", "bias") else None
    names = (
        [name for name in ctx.callees(call) if name.startswith("torch.nn.init.")] if isinstance(call, ast.Call) else []
    )
    return bool(names) and (identifier(weights) == "bias" or any(_RANDOM.search(name) for name in names))


def stored_on_self(expression: ast.expr, function: FunctionNode, ctx: Context) -> str | None:
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
    if any(_ends(test, function) for test, _ in ctx.module.index.conditions_around(statement)):
        return None
    return ast.unparse(target) if statement in function.body else None


def _ends(test: ast.expr, *functions: FunctionNode) -> bool:
    """Does code write the attribute of its object that it waits for: `if not self.built:`, `hasattr(self, "scale")`?"""
    asked = {identifier(part) for part in walk(test) if is_own(part)}
    for part in walk(test):
        if isinstance(part, ast.Call) and identifier(part.func) == "hasattr":
            asked |= {str(name.value) for name in part.args if isinstance(name, ast.Constant)}
    written = (part for function in functions for part in walk(function) if is_own(part))
    return any(
        isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and part.attr in asked for part in written
    )


def runs_with_forward(function: FunctionNode, module: Module) -> bool:
    """Return whether a function is a layer's forward, or a method of the layer that forward calls."""
    owner = module.index.parents.get(function)
    if not isinstance(owner, ast.ClassDef):
        return False
    info = module.inference.class_info(owner)
    if info.methods.get(function.name) is not function:
        return False
    reached = module.project.once(_run_with_forward, info)
    return function.name in reached and module.inference.is_module_class(info.name)


def _run_with_forward(info: ClassInfo) -> list[str]:
    """Return the methods that each forward pass runs, not those that only the first one does."""
    methods = info.methods
    reached = [name for name in methods if name in _RUNS]
    for name in reached:
        for part in walk(methods[name]):
            called = part.attr if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "self" else ""
            if called not in methods or called in reached:
                continue
            conditions = info.module.index.conditions_around(part)
            if not any(_ends(test, methods[name], methods[called]) for test, _ in conditions):
                reached.append(called)
    return reached
