"""Calls of functions of the project that hand their arguments on: `resize(x, mode="bilinear")` is an interpolation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.made_by_callers import left_over
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import load_types
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module


def handed_on(module: Module, call: ast.Call, parameter: str) -> Iterator[tuple[tuple[str, ...], ast.Call]]:
    """Yield what a function of the project returns a call of, by its names, and that call as `call` has it made.

    Only where `parameter` is handed on, and every argument is one of the function's own or written out. A parameter by
    its name only where the function is of another file: in its own, callers are asked for it.
    """
    for owner, function in functions_called(module.inference, call):
        named = any(argument.arg == parameter for argument, _ in parameters(function.args))
        if owner is module and named:
            continue
        for statement in owner.flow(owner.index.scopes[function]).returns():
            inner = _wrapped(owner, statement.value)
            if inner is not None and (_takes(inner, parameter) if named else _takes_the_rest(inner, function)):
                written = _as_called(inner, function, call)
                if written is not None:
                    yield owner.inference.callees(inner), written


def _wrapped(module: Module, node: ast.expr | None) -> ast.Call | None:
    """Return `nn.Conv1d(…)` of `weight_norm(nn.Conv1d(…))`, and of a name that it was given before."""
    made = only_value(module, node) if isinstance(node, ast.Name) else node
    if not isinstance(made, ast.Call):
        return None
    wraps = bool(made.args) and any(name in load_types().wrappers for name in module.inference.callees(made))
    return _wrapped(module, made.args[0]) if wraps else made


def _takes(inner: ast.Call, parameter: str) -> bool:
    return any(isinstance(value, ast.Name) and value.id == parameter for value in arguments_of(inner))


def _takes_the_rest(inner: ast.Call, function: FunctionNode) -> bool:
    """`def conv(*args, **options): return nn.Conv1d(*args, **options)`."""
    return any(keyword.arg is None and _is_gathered(keyword.value, function.args.kwarg) for keyword in inner.keywords)


def _is_gathered(value: ast.expr, gathering: ast.arg | None) -> bool:
    return gathering is not None and isinstance(value, ast.Name) and value.id == gathering.arg


def _as_called(inner: ast.Call, function: FunctionNode, call: ast.Call) -> ast.Call | None:
    """Return the inner call with what the outer one gives in the place of the function's parameters."""
    rest, gathers = left_over(call, function, call.func), function.args
    args: list[ast.expr | None] = []
    for value in inner.args:
        starred = isinstance(value, ast.Starred) and _is_gathered(value.value, gathers.vararg)
        args += rest.args if starred else [_given(value, function, call)]
    keywords: list[ast.keyword] = []
    for keyword in inner.keywords:
        spread = keyword.arg is None and _is_gathered(keyword.value, gathers.kwarg)
        given = _given(keyword.value, function, call) if keyword.arg is not None else None
        if not spread and given is None:
            return None
        keywords += rest.keywords if spread or given is None else [ast.keyword(keyword.arg, given)]
    known = [value for value in args if value is not None]
    return ast.copy_location(ast.Call(call.func, known, keywords), call) if len(known) == len(args) else None


def _given(value: ast.expr, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    if isinstance(value, ast.Constant):
        return value
    if not isinstance(value, ast.Name):
        return None
    given = argument_of(function, value.id, call, skip_self=isinstance(call.func, ast.Attribute))
    defaults = (default for argument, default in parameters(function.args) if argument.arg == value.id)
    return given if given is not None else next(defaults, None)
