"""Where is a layer called that a constructor makes? Kept under names, made by a helper, or given to functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.given_back import given_back
from detlint.linter.analysis.values import load_types
from detlint.linter.source.names import Binding, BindingKind, run_by, set_to


def is_layer(call: Call) -> bool:
    return call.name.rpartition(".")[2][:1].isupper()


def uses_of_layer(call: Call, ctx: Context) -> list[ast.Call] | None:
    """Return the calls of the module that a constructor makes, as far as the file shows; None for plain functions."""
    if not is_layer(call):
        return None
    parent = ctx.parent(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node:
        return [parent]
    places = given_back(call.node, ctx)
    here = [place for place, inside in places if inside is ctx]
    given: set[ast.AST] = set()
    names = sorted({name for place in here if len(here) == len(places) for name in _made_of(place, ctx, given)})
    found = [use for name in names for use in ctx.module.index.calls_by_name.get(name, ())]
    made = [call.node, *(value.node for value in ctx.values(call.node))]  # a function of the project may make it
    known = given.union(node for node in made if node is not None)
    return [use for use in found if any(value.node in known for value in ctx.values(use.func))]


def is_certain(use: ast.Call, call: Call, ctx: Context) -> bool:
    """Where several layers go by one name, what one of them is given says nothing of another: but for class numbers.

    Other losses of that name (`nn.BCEWithLogitsLoss`) take floats.
    """
    if len({value.type for value in ctx.values(use.func)}) == 1:
        return True
    targets = ctx.values(use.args[1]) if len(use.args) > 1 else ()
    return bool(targets) and all(target.is_integral for target in targets)


def _made_of(node: ast.expr, ctx: Context, given: set[ast.AST], steps: int = 4) -> Iterator[str]:
    """Yield the identifiers that hold the layer made by `node`, moved to a device and wrapped or not.

    Parameters of functions of the file that it is passed for are put into `given`.
    """
    parent = ctx.parent(node)
    moved = ctx.parent(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(moved, ast.Call):
        yield from _made_of(moved, ctx, given, steps)  # nn.CrossEntropyLoss().cuda()
    elif isinstance(parent, ast.Call) and any(name in load_types().wrappers for name in ctx.callees(parent)):
        yield from _made_of(parent, ctx, given, steps)  # weight_norm(nn.Conv1d(4, 4, 3))
    elif isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.IfExp) and node is not parent.test):
        yield from _made_of(
            parent, ctx, given, steps
        )  # nn.CrossEntropyLoss() if classes > 2 else nn.BCEWithLogitsLoss()
    for target in set_to(node, ctx.module.index.parents):
        if isinstance(target, ast.Attribute):
            yield target.attr
        elif isinstance(target, ast.Name):
            yield target.id
            yield from _held_through(ctx.binding(node), ctx, given, steps)
    if isinstance(parent, ast.keyword) or (isinstance(parent, ast.Call) and node in parent.args):
        call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
        for parameter in _passed_for(node, call, ctx) if isinstance(call, ast.Call) else ():
            given.add(parameter.node)
            yield parameter.name
            yield from _held_through(parameter, ctx, given, steps)


def _held_through(binding: Binding | None, ctx: Context, given: set[ast.AST], steps: int) -> Iterator[str]:
    """Yield what holds a layer that a variable stands for: `self.conv = weight_norm(conv)`, `train(model, loss)`."""
    for use in ctx.module.flow(binding.scope).uses(binding) if binding is not None and steps else ():
        yield from _made_of(use, ctx, given, steps - 1)


def _passed_for(node: ast.expr, call: ast.Call, ctx: Context) -> Iterator[Binding]:
    """Yield the parameters of functions of the file, and of constructors of its classes, that an argument is for."""
    for definition in map(ctx.module.project.definition, ctx.callees(call)):
        function = run_by(definition[1]) if definition is not None and definition[0] is ctx.module else None
        name = parameter_given(function, call, node, skip_self=True) if function is not None else None
        if function is not None and name is not None:
            found = ctx.module.index.scopes[function].bindings[name]
            yield from (binding for binding in found if binding.kind is BindingKind.PARAMETER)
