"""Calls of functions of the project that hand their arguments on: `resize(x, mode="bilinear")` is an interpolation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of

if TYPE_CHECKING:
    from detlint.linter.analysis.project import Module


def handed_on(module: Module, call: ast.Call, parameter: str) -> Iterator[tuple[tuple[str, ...], ast.Call]]:
    """Yield what a function of another file returns a call of, by its names, and that call as `call` has it made.

    Only where `parameter` is handed on, and every argument is one of the function's own or written out.
    """
    for owner, function in functions_called(module.inference, call):
        if owner is module or all(argument.arg != parameter for argument, _ in parameters(function.args)):
            continue
        for statement in owner.flow(owner.index.scopes[function]).returns():
            inner = statement.value
            if isinstance(inner, ast.Call) and _takes(inner, parameter):
                written = _as_called(inner, function, call)
                if written is not None:
                    yield owner.inference.callees(inner), written


def _takes(inner: ast.Call, parameter: str) -> bool:
    return any(isinstance(value, ast.Name) and value.id == parameter for value in arguments_of(inner))


def _as_called(inner: ast.Call, function: FunctionNode, call: ast.Call) -> ast.Call | None:
    """Return the inner call with what the outer one gives in the place of the function's parameters."""
    args = [_given(value, function, call) for value in inner.args]
    keywords = [(keyword.arg, _given(keyword.value, function, call)) for keyword in inner.keywords]
    known = [value for value in args if value is not None]
    named = [ast.keyword(name, value) for name, value in keywords if name is not None and value is not None]
    complete = len(known) == len(args) and len(named) == len(keywords)
    return ast.copy_location(ast.Call(call.func, known, named), call) if complete else None


def _given(value: ast.expr, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    if isinstance(value, ast.Constant):
        return value
    if not isinstance(value, ast.Name):
        return None
    given = argument_of(function, value.id, call, skip_self=isinstance(call.func, ast.Attribute))
    defaults = (default for argument, default in parameters(function.args) if argument.arg == value.id)
    return given if given is not None else next(defaults, None)
