"""Is a model only tried out by a call? Then the result is unused but for its shape, or the input is made up."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.module import Module
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk

SHAPES = frozenset({"shape", "size", "dim", "ndim", "numel", "dtype", "device"})
_MAKERS = frozenset({"randn", "rand", "zeros", "ones", "randint", "empty"})
# What calls the function that it is given over and over, for the time that it takes.
_TIMING = frozenset({"timeit.timeit", "timeit.repeat", "timeit.Timer"})
_TIMING_ON_DEVICE = "do_bench"
_MOST_HANDS = 3  # through which a callable goes


def is_unused(module: Module, call: ast.Call, hands: int = _MOST_HANDS) -> bool:
    """Timing and warm-up runs throw the result away; others only look at its shape."""
    parent = module.index.parents.get(call)
    if isinstance(parent, ast.Expr) or (isinstance(parent, ast.Attribute) and parent.attr in SHAPES):
        return True
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = [part for target in targets for part in walk(target) if isinstance(part, ast.Name)]
    plain = all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
    if names:
        return plain and all(_only_shape(module, name, call) for name in names)
    handed = _callables_giving(module, call)
    return bool(handed) and all(_is_called_in_vain(module, use, hands) for use in handed)


def _callables_giving(module: Module, call: ast.Call) -> Sequence[ast.expr]:
    """Return `lambda: net(x)`, or where a function within a function stands that ends with `return net(x)`."""
    index = module.index
    parent = index.parents.get(call)
    if isinstance(parent, ast.Lambda):
        named = index.parents.get(parent)
        targets = named.targets if isinstance(named, ast.Assign) else [parent]
        return list(index.uses_of(targets[0])) if isinstance(targets[0], ast.Name) else [parent]
    function = index.function_at(call) if isinstance(parent, ast.Return) else None
    around = index.function_at(function) if function is not None else None
    return index.uses_in(index.scopes[around], function.name) if function is not None and around is not None else ()


def _is_called_in_vain(module: Module, use: ast.expr, hands: int) -> bool:
    """`timed(run)`: do the functions that are handed a callable throw away what it gives?"""
    around = module.index.parents.get(use)
    around = module.index.parents.get(around) if isinstance(around, ast.keyword) else around
    if not isinstance(around, ast.Call):
        return False
    if around.func is use:
        return bool(hands) and is_unused(module, around, hands - 1)
    if identifier(around.func).startswith(_TIMING_ON_DEVICE) or _TIMING.intersection(module.inference.callees(around)):
        return True
    found = list(functions_called(module.inference, around)) if hands else []
    return bool(found) and all(_throws_away(*each, around, use, hands - 1) for each in found)


def _throws_away(module: Module, function: FunctionNode, call: ast.Call, given: ast.expr, hands: int) -> bool:
    skip_self = isinstance(call.func, ast.Attribute) or function.name == "__init__"
    name = parameter_given(function, call, given, skip_self=skip_self)
    uses = module.index.uses_in(module.index.scopes[function], name) if name is not None else ()
    return bool(uses) and all(_is_called_in_vain(module, use, hands) for use in uses)


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
