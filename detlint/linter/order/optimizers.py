"""Does an optimizer do no more than to step? Each weight is updated by itself then, in whatever order they were given.

The order is that of the state which a checkpoint keeps by the number of each weight.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.made import target_of
from detlint.linter.order.meant import filled_in
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_STEPPING = frozenset({"step", "zero_grad"})
_MOST_CALLS = 3


def only_steps(made: ast.Call, module: Module) -> bool:
    """`optimizer = Adam(weights)` of a function in which nobody reads anything of it, nor hands it on to who may."""
    target = target_of(made, module.index)
    return target is not None and _is_stepped_with(_bound_to(target, module), module, _MOST_CALLS)


def _bound_to(target: ast.expr, module: Module) -> Binding | None:
    """Return what an assignment, or a loop, binds to a name."""
    bindings = module.index.bindings_of(target) if isinstance(target, ast.Name) else ()
    return next((binding for binding in bindings if binding.node is target), None)


def _is_stepped_with(binding: Binding | None, module: Module, calls: int) -> bool:
    """Is that so of each use of a variable, a parameter or the target of a loop, closures included; is there one?"""
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    index, name = module.index, binding.name
    named = (
        use for use in index.names_used.get(name, ()) if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load)
    )
    uses = [use for use in named if index.scope_at(use).lookup(name) is binding.scope]
    return bool(uses) and all(_is_stepped(use, module, calls) for use in uses)


def _is_stepped(use: ast.expr, module: Module, calls: int) -> bool:
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Attribute):
        call = module.index.parents.get(parent)
        return parent.attr in _STEPPING and isinstance(call, ast.Call) and call.func is parent
    if isinstance(parent, (ast.List, ast.Tuple)):
        return _is_stepped(parent, module, calls)
    if isinstance(parent, ast.For) and parent.iter is use:
        return _is_stepped_with(_bound_to(parent.target, module), module, calls)
    call = module.index.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not use and calls > 0 and _is_taken(use, call, module, calls - 1)


def _is_taken(given: ast.expr, call: ast.Call, module: Module, calls: int) -> bool:
    """Does each function of the project that may get it do nothing else with it?"""
    asked = []
    for owner, function in functions_called(module.inference, call):
        name = parameter_given(function, call, given, skip_self=owner.index.class_at(function) is not None)
        for place, version in filled_in(owner, function):
            bindings = place.index.scopes[version].bindings[name] if name is not None else []
            parameter = next((each for each in bindings if each.kind is BindingKind.PARAMETER), None)
            asked.append(_is_stepped_with(parameter, place, calls))
    return bool(asked) and all(asked)
