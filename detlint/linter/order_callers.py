"""Does anybody who calls a function have a use for the order it gives? Asks all callers in the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.callers import calls_of
from detlint.linter.calls import argument_of
from detlint.linter.names import FUNCTIONS, Binding
from detlint.linter.nodes import identifier
from detlint.linter.order import OrderTracer
from detlint.linter.order_form import GivenBack, Trail, names_in
from detlint.linter.testcode import is_test_file
from detlint.linter.values import Kind

if TYPE_CHECKING:
    from detlint.linter.context import Context

# What asks only which elements there are, besides what sorts them.
_ASKING = frozenset({"builtins.len", "builtins.any", "builtins.all", "builtins.bool", "builtins.print"})
_ALGEBRA = frozenset({"update", "union", "difference", "intersection", "isdisjoint", "issubset", "issuperset"})
_DEPTH = 4


def is_order_unused(given: GivenBack, ctx: Context) -> bool:
    """Return whether a function has callers in the project, and each of them ignores the order of what it gives.

    Tests say nothing about the use that a function has; a function handed on as a value may be called by anybody.
    """
    used = False
    for site in calls_of(given.function, ctx.elsewhere(given.module)):
        if site is None:
            return False
        where, call = site
        if is_test_file(where.module):
            continue
        if not _ignores(call, OrderTracer(where.module)):
            return False
        used = True
    return used


def _ignores(node: ast.expr, tracer: OrderTracer, depth: int = _DEPTH) -> bool:
    """Return whether the code around an expression is known to have no use for its order."""
    parent = tracer.index.parents.get(node)
    if depth == 0 or parent is None:
        return False
    if tracer.shown(node):
        return True
    inner = depth - 1
    if isinstance(parent, ast.Compare):
        return all(isinstance(test, (ast.In, ast.NotIn)) for test in parent.ops) and node is not parent.left
    if isinstance(parent, ast.Call):
        return node is not parent.func and (
            _is_ignored_by(parent, tracer) or _is_argument_ignored(node, parent, tracer, inner)
        )
    if isinstance(parent, ast.comprehension):
        around = tracer.index.parents[parent]
        if isinstance(around, (ast.SetComp, ast.DictComp)):
            return True  # a dict is looked things up in
        return isinstance(around, (ast.ListComp, ast.GeneratorExp)) and _ignores(around, tracer, inner)
    if isinstance(parent, ast.For):
        return node is parent.iter and _is_loop_indifferent(parent, tracer)
    if isinstance(parent, ast.Assign):
        return len(parent.targets) == 1 and _is_variable_ignored(parent.targets[0], tracer, inner)
    if isinstance(parent, ast.BoolOp):
        return _ignores(parent, tracer, inner)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return node is parent.test
    return isinstance(parent, ast.UnaryOp)  # `not names`


def _is_ignored_by(call: ast.Call, tracer: OrderTracer) -> bool:
    if tracer.sorts(call) or not _ASKING.isdisjoint(tracer.inference.callees(call)):
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _ALGEBRA:
        return False
    return {value.kind for value in tracer.inference.values(call.func.value)} == {Kind.SET}


def _is_loop_indifferent(loop: ast.For, tracer: OrderTracer) -> bool:
    """Return whether a loop does nothing with its elements but look at them, keep them in sets or look things up."""
    elements = names_in(loop.target)
    uses = [part for statement in loop.body for part in ast.walk(statement) if getattr(part, "id", None) in elements]
    return tracer.destination(loop.iter, Trail(gathered=True)) is None and all(
        tracer.shown(use) or _only_looks_at(use, tracer) for use in uses if isinstance(use, ast.Name)
    )


def _only_looks_at(use: ast.expr, tracer: OrderTracer) -> bool:
    """`if name in known`, `seen.add(name)`, `rows[name]`, `name.startswith(prefix)` of a test."""
    parent = tracer.index.parents.get(use)
    if isinstance(parent, ast.Call):
        return identifier(parent.func) == "add" or _is_ignored_by(parent, tracer)
    if isinstance(parent, ast.Attribute):
        around = tracer.index.parents[parent]
        return isinstance(around, ast.Call) and isinstance(tracer.index.parents[around], (ast.If, ast.BoolOp))
    return isinstance(parent, (ast.Compare, ast.Subscript))


def _is_argument_ignored(given: ast.expr, call: ast.Call, tracer: OrderTracer, depth: int) -> bool:
    """Return whether the function of the project that gets an argument ignores its order."""
    for name in tracer.inference.callees(call):
        module, function = tracer.module.project.definition(name) or (None, None)
        if module is not None and isinstance(function, FUNCTIONS):
            method = module.index.class_at(function) is not None
            for parameter in module.index.scopes[function].bindings.values():
                if argument_of(function, parameter[0].name, call, skip_self=method) is given:
                    return _is_binding_ignored(parameter[0], OrderTracer(module), depth)
    return False


def _is_variable_ignored(target: ast.expr, tracer: OrderTracer, depth: int) -> bool:
    binding = tracer.binding_of(target) if isinstance(target, ast.Name) else None
    return binding is not None and _is_binding_ignored(binding, tracer, depth)


def _is_binding_ignored(binding: Binding, tracer: OrderTracer, depth: int) -> bool:
    if not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = tracer.module.flow(binding.scope).uses(binding)
    return bool(uses) and all(_ignores(use, tracer, depth) for use in uses)
