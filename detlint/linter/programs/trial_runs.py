"""Is a model only tried out by a call? Then the result is unused but for its shape, or the input is made up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.source.names import parameters
from detlint.linter.source.nodes import identifier, walk

SHAPES = frozenset({"shape", "size", "dim", "ndim", "numel", "dtype", "device"})
_MAKERS = frozenset({"randn", "rand", "zeros", "ones", "randint", "empty"})


def is_unused(module: Module, call: ast.Call) -> bool:
    """Timing and warm-up runs throw the result away; others only look at its shape."""
    parent = module.index.parents.get(call)
    if isinstance(parent, ast.Expr) or (isinstance(parent, ast.Attribute) and parent.attr in SHAPES):
        return True
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = [part for target in targets for part in walk(target) if isinstance(part, ast.Name)]
    plain = all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
    return bool(names) and plain and all(_only_shape(module, name, call) for name in names)


def is_in_unit_test(module: Module, node: ast.AST) -> bool:
    """`def test_net():` beside the code that it tests: it takes nothing, and asserts something."""
    function = module.index.function_at(node)
    if function is None or not function.name.startswith("test_") or next(parameters(function.args), None) is not None:
        return False
    return any(
        isinstance(part, ast.Assert) or (isinstance(part, ast.Call) and identifier(part.func).startswith("assert"))
        for part in walk(function)
    )


def is_demo(module: Module, call: ast.Call) -> bool:
    """Random or constant input through fresh random weights predicts nothing."""
    return any(
        isinstance(part, ast.Call) and getattr(part.func, "attr", "") in _MAKERS
        for argument in call.args
        for part in _behind(module, argument)
    )


def _only_shape(module: Module, name: ast.Name, call: ast.Call) -> bool:
    binding = next((b for b in module.index.bindings_of(name) if b.node is name), None)
    return binding is not None and all(_is_shape(module, use) for use in module.flow_at(call).uses(binding))


def _is_shape(module: Module, use: ast.expr) -> bool:
    parent = module.index.parents.get(module.index.entry_of(use))
    return isinstance(parent, ast.Attribute) and parent.attr in SHAPES


def _behind(module: Module, node: ast.expr) -> Iterator[ast.AST]:
    yield from walk(node)
    for name in walk(node):
        if isinstance(name, ast.Name):
            for binding in module.definitions(name):
                if binding.value is not None:
                    yield from walk(binding.value)
