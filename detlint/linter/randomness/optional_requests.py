"""Requests for determinism that only a caller's word turns on: `def set_seed(seed, deterministic=False)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program, calls_named
from detlint.linter.source.names import BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier


def stays_off(module: Module, node: ast.AST, program: Program) -> bool:
    """Does a request stand under an option of its function that is off by default, and that no call here turns on?"""
    function = module.index.function_at(node)
    if function is None:
        return False
    options = [name for name in _asked_for(module, node) if _is_off_by_default(module, function, name)]
    return bool(options) and not any(_may_pass(function, name, program) for name in options)


def _asked_for(module: Module, node: ast.AST) -> Iterator[str]:
    """Yield the names that have to be true for a node to run."""
    for test, holds in module.index.branches_around(node):
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        yield from (part.id for part in parts if holds and isinstance(part, ast.Name))


def _is_off_by_default(module: Module, function: FunctionNode, name: str) -> bool:
    bindings = module.index.scopes[function].bindings.get(name, ())
    default = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    return isinstance(default, ast.Constant) and not default.value


def _may_pass(function: FunctionNode, name: str, program: Program) -> bool:
    """Does a call in the program, of whatever goes by the function's name, pass the option or hide what it passes?"""
    for module in program.modules:
        for call in calls_named(module, (function.name,)):
            if not _may_call(call, function, module):
                continue
            hidden = any(keyword.arg is None for keyword in call.keywords)
            hidden |= any(isinstance(given, ast.Starred) for given in call.args)
            if hidden or argument_of(function, name, call, skip_self=isinstance(call.func, ast.Attribute)) is not None:
                return True
    return False


def _may_call(call: ast.Call, function: FunctionNode, module: Module) -> bool:
    names = (identifier(call.func), *(name.rpartition(".")[2] for name in module.inference.callees(call)))
    return function.name in names
