"""Are results exact by construction: text, or what a function was given, of which it only selects or replaces some?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.project import Module
from detlint.linter.analysis.written_here import kept_in, made_here
from detlint.linter.numbers.arrays import FILLED
from detlint.linter.numbers.tensor_writes import written_into
from detlint.linter.numbers.written_results import written_as
from detlint.linter.programs.called_models import run_functions
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

_TABLES = frozenset({"dict", "Dict", "Mapping", "OrderedDict", "defaultdict"})
_CHOOSING = "where"  # its first argument only says which of the others is taken
# What keeps bits only where the sum was rounded before.
_ADDS_UP = frozenset({"sum"})
_MAX_STEPS = 8


def promises_text(function: FunctionNode) -> bool:
    """Return whether a function says that it may give texts: `-> list[str]`; the keys of a table are none of it."""
    return function.returns is not None and _names_text(function.returns)


def _names_text(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript) and identifier(annotation.value) in _TABLES:
        inner = annotation.slice
        return isinstance(inner, ast.Tuple) and bool(inner.elts) and _names_text(inner.elts[-1])
    if isinstance(annotation, ast.Subscript):
        return _names_text(annotation.slice)
    if isinstance(annotation, ast.Tuple):
        return any(map(_names_text, annotation.elts))
    if isinstance(annotation, ast.BinOp):
        return _names_text(annotation.left) or _names_text(annotation.right)
    return identifier(annotation) == "str"


def only_selects(module: Module, call: ast.Call) -> bool:
    """Return whether what a call runs gives back its arguments' own bits: `x.masked_fill(x > 3, 0.0)` of its `x`."""
    found = [module.project.definition(name) for name in run_functions(module, call)]
    return bool(found) and all(
        each is not None and isinstance(each[1], FUNCTIONS) and _gives_own(each[0], each[1]) for each in found
    )


def _gives_own(module: Module, function: FunctionNode) -> bool:
    returned = [part.value for part in walk(function) if isinstance(part, ast.Return)]
    return bool(returned) and all(value is not None and _is_own(module, value, _MAX_STEPS) for value in returned)


def _is_own(module: Module, node: ast.expr, steps: int) -> bool:
    """Is this a parameter, a number, or a part of one, with some of its places set to another?"""
    if not steps:
        return False
    if isinstance(node, ast.Constant):
        return True
    if (kept := kept_in(module, node)) is not None:
        return _is_own(module, kept, steps - 1)
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        return bool(bindings) and all(
            binding.kind is BindingKind.PARAMETER
            or (
                (value := made_here(module, binding)) is not None
                and (_is_own(module, value, steps - 1) or _is_filled_with_own(module, node, value, steps - 1))
            )
            for binding in bindings
        )
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in rounding_table().keeping):
        return _is_own(module, node.value, steps - 1)
    return isinstance(node, ast.Call) and _selects(module, node, steps)


def _is_filled_with_own(module: Module, name: ast.Name, made: ast.expr, steps: int) -> bool:
    """`states` after `states = torch.zeros(n).transpose(0, 1)` and `states[i] = x[start:end].T`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and _is_view(made.func.attr):
        made = written_as(module, made.func.value)
    if not isinstance(made, ast.Call) or identifier(made.func).removesuffix("_like") not in FILLED:
        return False
    written = list(written_into(module, name, sums=False))
    return bool(written) and all(part is not None and _is_own(module, part, steps) for part in written)


def _is_view(name: str) -> bool:
    return name in rounding_table().keeping - _ADDS_UP


def _selects(module: Module, call: ast.Call, steps: int) -> bool:
    name = identifier(call.func)
    if not _is_view(name) and name != _CHOOSING:
        return False
    of_torch = any(each.startswith(("torch.", "numpy.")) for each in module.inference.callees(call))
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_function = receiver is not None and bool(set(module.inference.resolve(receiver)) & {"torch", "numpy"})
    if name == _CHOOSING:
        taken = call.args[1:] if is_function else [receiver, *call.args[1:]]
        return of_torch and all(part is not None and _is_own(module, part, steps - 1) for part in taken)
    taken = call.args[:1] if is_function else [receiver]
    return bool(taken) and taken[0] is not None and _is_own(module, taken[0], steps - 1)
