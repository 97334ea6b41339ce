"""Is one side what a function gives that the other side only hands its arguments on to?"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from itertools import islice

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.taken import made_by
from detlint.linter.programs.called_models import run_functions
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import decorating, is_own, walk

_ITSELF = "self"
# The last call that gave something, and one of a helper that returns it.
_MOST_CALLS = 2


def is_handed_on(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """`model.total_cost()` and `cost_of(model)`, where the method is `return cost_of(self)`."""
    ours, theirs = (list(islice(made_by(ctx.module, side), _MOST_CALLS)) for side in (left, right))
    return any(_hands_on_to(one, other, ctx) or _hands_on_to(other, one, ctx) for one in ours for other in theirs)


def _hands_on_to(wrapper: ast.Call, wrapped: ast.Call, ctx: Context) -> bool:
    """Does the one call do no more than the other one, in each `return` that it can come to here?"""
    found = list(islice(_functions(wrapper, ctx), 2))
    if len(found) != 1:
        return False
    owner, function = found[0]
    asked = ast.unparse(wrapped)
    for statement in (part for part in walk(function) if isinstance(part, ast.Return)):
        if statement.value is None or not isinstance(statement.value, ast.Call):
            return False
        tests = list(owner.index.branches_around(statement))
        if not all(_is_set(test, holds, wrapper, ctx) for test, holds in tests):
            return False
        return _as_called(statement.value, function, wrapper) == asked
    return False


def _functions(call: ast.Call, ctx: Context) -> Iterator[tuple[Module, FunctionNode]]:
    """Yield what a call runs, and methods that a decorator of a class defines and sets."""
    for name in run_functions(ctx.module, call):
        owner, function = ctx.module.project.definition(name) or (None, None)
        if owner is not None and isinstance(function, FUNCTIONS):
            yield owner, function
    method = call.func if isinstance(call.func, ast.Attribute) else None
    for value in ctx.values(method.value) if method is not None else ():
        made = ctx.module.project.definition(value.type) if value.type else None
        for decorator in made[1].decorator_list if made is not None and isinstance(made[1], ast.ClassDef) else ():
            if made is not None and method is not None:
                yield from _set_by(decorator, method.attr, made[0])


def _set_by(decorator: ast.expr, method: str, module: Module) -> Iterator[tuple[Module, FunctionNode]]:
    for name in module.inference.resolve(decorating(decorator)):
        owner, function = module.project.definition(name) or (None, None)
        for part in walk(function) if owner is not None and isinstance(function, FUNCTIONS) else ():
            if isinstance(part, FUNCTIONS) and part.name == method and owner is not None:
                yield owner, part


def _is_set(test: ast.expr, holds: bool, call: ast.Call, ctx: Context) -> bool:
    """`if self.frozen: return …`, after `layer.frozen = True` in the function that calls the method of `layer`."""
    method, function = call.func, ctx.function(call)
    if not holds or not is_own(test) or not isinstance(test, ast.Attribute) or function is None:
        return False
    called = method.value if isinstance(method, ast.Attribute) else method
    wanted = f"{ast.unparse(called)}.{test.attr}"
    said = [
        statement.value
        for statement in walk(function)
        if isinstance(statement, ast.Assign)
        and statement.lineno < call.lineno
        and any(ast.unparse(target) == wanted for target in statement.targets)
    ]
    return bool(said) and ctx.constant(said[-1]) is True


def _as_called(value: ast.Call, function: FunctionNode, call: ast.Call) -> str:
    """Return what a function gives back as it would be written where it is called: `cost_of(model)`."""
    given: dict[str, ast.expr] = {}
    for parameter, _ in parameters(function.args):
        argument = argument_of(function, parameter.arg, call, skip_self=True)
        if argument is not None:
            given[parameter.arg] = argument
    given[_ITSELF] = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return ast.unparse(_FilledIn(given).visit(copy.deepcopy(value)))


class _FilledIn(ast.NodeTransformer):
    """Puts arguments in for the parameters of a function."""

    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)
