"""What do the parameters of a function stand for where it is called: `x` and `(h, w)` of `resize(x, h, w)`?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.resolution import instance_attribute
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, is_own, receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def as_callers_give(nodes: list[ast.expr], ctx: Context) -> list[tuple[list[ast.expr], Context]]:
    """Return expressions that are made of parameters alone, once for each call of their function, as that passes them.

    Nothing where a call is out of sight, or leaves one of them out.
    """
    function = _function_of(nodes, ctx)
    if function is None:
        return []
    found: list[tuple[list[ast.expr], Context]] = []
    for site in calls_of(function, ctx):
        given = [_given(node, function, site[1]) for node in nodes] if site is not None else [None]
        if site is None or None in given:
            return []
        found.append(([node for node in given if node is not None], site[0]))
    return found


def functions_meant(call: ast.Call, ctx: Context) -> Iterator[tuple[Context, FunctionNode]]:
    """Yield the functions of the project that a call may run; for `pool.take(x)` the methods of what callers give."""
    found = [(ctx.elsewhere(module), function) for module, function in functions_called(ctx.inference, call)]
    receiver = receiver_of(call)
    given = as_callers_give([receiver], ctx) if receiver is not None and not found else []
    for parts, where in given:
        for value in where.values(parts[0]):
            kept = instance_attribute(where.inference, value.type, identifier(call.func)) if value.type else ()
            definitions = map(where.module.project.definition, kept)
            found += [
                (where.elsewhere(each[0]), each[1]) for each in definitions if each and isinstance(each[1], FUNCTIONS)
            ]
    yield from found


def _function_of(nodes: list[ast.expr], ctx: Context) -> FunctionNode | None:
    """Return the function that all names in the expressions are parameters of."""
    functions = set()
    for node in nodes:
        for name in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
            bindings = ctx.module.definitions(name) if isinstance(name, ast.Name) else ()
            kinds = [binding.kind for binding in bindings]
            functions.add(bindings[0].scope.node if kinds == [BindingKind.PARAMETER] else None)
    only = functions.pop() if len(functions) == 1 else None
    return only if isinstance(only, FUNCTIONS) else None


def _given(node: ast.expr, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    """Return a parameter, or a tuple of them, as a call gives it."""
    if isinstance(node, ast.Name):
        return argument_of(function, node.id, call, skip_self=isinstance(call.func, ast.Attribute) or is_own(call.func))
    parts = [_given(part, function, call) for part in getattr(node, "elts", ())]
    known = [part for part in parts if part is not None]
    return ast.copy_location(ast.Tuple(known, ast.Load()), call) if known and len(known) == len(parts) else None
