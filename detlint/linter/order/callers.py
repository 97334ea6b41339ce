"""Does anybody who calls a function have a use for the order it gives? Asks all callers in the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.values import Kind
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import GivenBack, Trail, names_in
from detlint.linter.source.names import FUNCTIONS, Binding
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_DEPTH = 4


def is_given_in_vain(sink: str, ctx: Context) -> bool:
    """Return whether an order ends in what a function gives to callers who all ignore it, and there are some.

    Tests say nothing about the use that a function has; a function handed on as a value may be called by anybody.
    """
    if not isinstance(sink, GivenBack) or _stands_in_for_another(sink):
        return False
    used = False
    for site in calls_of(sink.function, ctx.elsewhere(sink.module)):
        if site is None:
            return False
        where, call = site
        if is_test_file(where.module):
            continue
        if not _ignores(call, OrderTracer(where.module)):
            return False
        used = True
    return used


def _stands_in_for_another(given: GivenBack) -> bool:
    """Return whether a method overrides one of a base class, or may: whoever calls that one gets its order too."""
    owner = given.module.index.class_at(given.function)
    if owner is None:
        return False
    inference = given.module.inference
    info = inference.class_info(owner)
    if any(base != "builtins.object" for base in inference.external_bases(info)):
        return True
    return any(given.function.name in each.methods for each in inference.mro(info) if each.node is not owner)


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
    if isinstance(parent, ast.keyword):
        return tracer.is_lookup(parent.arg or "")
    if isinstance(parent, ast.comprehension):
        around = tracer.index.parents[parent]
        if isinstance(around, (ast.SetComp, ast.DictComp)):
            return True  # a dict is looked things up in
        return isinstance(around, (ast.ListComp, ast.GeneratorExp)) and _ignores(around, tracer, inner)
    if isinstance(parent, ast.For):
        return node is parent.iter and _is_loop_indifferent(parent, tracer)
    if isinstance(parent, ast.Assign):
        target = parent.targets[0]
        if isinstance(target, ast.Subscript):
            return len(parent.targets) == 1 and tracer.is_lookup_key(target.slice)
        return len(parent.targets) == 1 and _is_variable_ignored(target, tracer, inner)
    if isinstance(parent, ast.BoolOp):
        return _ignores(parent, tracer, inner)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return node is parent.test
    return isinstance(parent, ast.UnaryOp)  # `not names`


def _is_ignored_by(call: ast.Call, tracer: OrderTracer) -> bool:
    table = tracer.table
    if tracer.sorts(call) or not table.functions["membership"].isdisjoint(tracer.inference.callees(call)):
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in table.methods["membership"]:
        return False
    kinds = {value.kind for value in tracer.inference.values(call.func.value)}
    return kinds == {Kind.SET} or call.func.attr == "isin"


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
            is_method = module.index.class_at(function) is not None
            parameter = parameter_given(function, call, given, skip_self=is_method)
            inside = OrderTracer(module)
            binding = inside.parameter(function, parameter) if parameter is not None else None
            if binding is not None:
                return _is_binding_ignored(binding, inside, depth)
    return False


def _is_variable_ignored(target: ast.expr, tracer: OrderTracer, depth: int) -> bool:
    binding = tracer.binding_of(target) if isinstance(target, ast.Name) else None
    return binding is not None and _is_binding_ignored(binding, tracer, depth)


def _is_binding_ignored(binding: Binding, tracer: OrderTracer, depth: int) -> bool:
    if not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = tracer.module.flow(binding.scope).uses(binding)
    return bool(uses) and all(_ignores(use, tracer, depth) for use in uses)
