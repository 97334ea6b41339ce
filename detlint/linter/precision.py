"""How precise can a value be? The coarsest dtype that its computation went through, as far as that is written out."""

from __future__ import annotations

import ast

from detlint.linter.calls import dtype_named
from detlint.linter.names import BindingKind, unpacked
from detlint.linter.nodes import identifier, walk
from detlint.linter.parametrized import given_in_turn
from detlint.linter.project import Module
from detlint.linter.values import Kind

# The distance of neighbouring numbers at 1.0.
EPSILON = {"float16": 9.77e-04, "bfloat16": 7.81e-03, "float32": 1.19e-07, "float64": 2.22e-16}
_CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
_CONVERSIONS = ("to", "type", "astype")
_FACTORIES = frozenset(
    f"torch.{name}" for name in ("rand", "randn", "ones", "zeros", "linspace", "eye", "logspace", "normal", "empty")
)


def precision(module: Module, node: ast.expr, depth: int = 8) -> str | None:
    """Return the coarsest dtype behind an expression, or None where nothing says which."""
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        values = [unpacked(b) or b.value for b in bindings if b.kind is BindingKind.ASSIGN and b.value is not None]
        return _coarsest(module, values, depth - 1) if len(values) == len(bindings) else None
    if isinstance(node, ast.BinOp):
        return _coarsest(module, [node.left, node.right], depth - 1)
    if isinstance(node, ast.UnaryOp):
        return precision(module, node.operand, depth - 1)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return precision(module, node.value, depth - 1)
    return _of_call(module, node, depth - 1) if isinstance(node, ast.Call) else None


def _of_call(module: Module, call: ast.Call, depth: int) -> str | None:
    function = call.func
    names = module.inference.callees(call)
    named = _written_dtype(module, call)
    if any(name in _FACTORIES for name in names):
        unsaid = not any(keyword.arg in ("dtype", None) for keyword in call.keywords)
        return named or (_default(module, call) if unsaid else None)
    if any(value.kind is Kind.MODULE for value in module.inference.values(function)):
        return _coarsest(module, call.args, depth) or _default(module, call)
    receiver = [function.value] if isinstance(function, ast.Attribute) else []
    before = _coarsest(module, [*receiver, *call.args], depth)
    if isinstance(function, ast.Attribute) and function.attr in _CASTS and not call.args:
        named = _CASTS[function.attr]
    found = [dtype for dtype in (before, named) if dtype is not None]
    return max(found, key=EPSILON.__getitem__) if found else None


def _written_dtype(module: Module, call: ast.Call) -> str | None:
    """Return the dtype that `dtype=torch.float16` or `.to(torch.float16)` names."""
    places = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    if isinstance(call.func, ast.Attribute) and call.func.attr in _CONVERSIONS:
        places += call.args
    for place in places:
        found = [
            dtype for part in _alternatives(module, place) if (dtype := dtype_named(module.inference, part)) in EPSILON
        ]
        if found:
            return max(found, key=EPSILON.__getitem__)
    return None


def _alternatives(module: Module, place: ast.expr) -> list[ast.expr]:
    """Return what stands for a dtype, in all runs of a test that treats its dtypes alike."""
    given = given_in_turn(module, place) if isinstance(place, ast.Name) else []
    return given if given and _are_treated_alike(module, place) else [place]


def _are_treated_alike(module: Module, name: ast.expr) -> bool:
    """Return whether a dtype is only handed on as one: nothing is compared with it, or looked up by it."""
    function = module.index.function_at(name)
    uses = (
        [part for part in walk(function) if isinstance(part, ast.Name) and part.id == ast.unparse(name)]
        if function
        else []
    )
    return all(_is_dtype_of_call(module, use) for use in uses if isinstance(use.ctx, ast.Load))


def _is_dtype_of_call(module: Module, use: ast.Name) -> bool:
    """`torch.ones(3, dtype=dtype)`, `x.to(dtype)`, `x.to(device, dtype)`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.keyword):
        return parent.arg == "dtype"
    return isinstance(parent, ast.Call) and identifier(parent.func) in _CONVERSIONS and use in parent.args


def _default(module: Module, node: ast.AST) -> str | None:
    """float32, unless the file or the function speaks of double precision."""
    if module.index.calls_by_name.get("set_default_dtype") or module.index.calls_by_name.get("set_default_tensor_type"):
        return None
    function = module.index.function_at(node)
    names = ast.walk(function if function is not None else module.tree)
    wider = any(isinstance(part, ast.Attribute) and part.attr in ("double", "float64") for part in names)
    return None if wider else "float32"


def _coarsest(module: Module, nodes: list[ast.expr], depth: int) -> str | None:
    found = [dtype for node in nodes if (dtype := precision(module, node, depth)) is not None]
    return max(found, key=EPSILON.__getitem__) if found else None
