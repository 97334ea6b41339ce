"""What a call of a function of the project comes to: the expression that it returns, with what it is given."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.project import Module


def inlined(call: ast.expr, ctx: Context) -> ast.expr | None:
    """Return `torch.empty(len(x), 4)` of `buffer(x)`, after `def buffer(rows): return torch.empty(len(rows), 4)`.

    None of anything else, and where the function returns what depends on variables of its own.
    """
    called = list(functions_called(ctx.inference, call)) if isinstance(call, ast.Call) else []
    if len(called) != 1 or not isinstance(call, ast.Call):
        return None
    module, function = called[0]
    returned = [statement.value for statement in module.flow(module.index.scopes[function]).returns()]
    result = returned[0] if len(returned) == 1 else None
    if isinstance(result, ast.Name):
        result = only_value(module, result)
    given = _given(result, module, function, call) if result is not None else None
    return _Filled(given).visit(copy.deepcopy(result)) if result is not None and given is not None else None


def _given(result: ast.expr, module: Module, function: FunctionNode, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return what the call gives for each variable of the function in a result; None where one is no parameter."""
    bindings = module.index.scopes[function].bindings
    defaults = {argument.arg: default for argument, default in parameters(function.args)}
    method = isinstance(call.func, ast.Attribute)
    found: dict[str, ast.expr] = {}
    for name in {part.id for part in walk(result) if isinstance(part, ast.Name)} & set(bindings):
        value = argument_of(function, name, call, skip_self=method) or defaults.get(name)
        if len(bindings[name]) != 1 or value is None:
            return None
        found[name] = value
    return found


class _Filled(ast.NodeTransformer):
    """Puts what is given in the place of parameters."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)
