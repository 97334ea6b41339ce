"""Is a result compared with a number of few binary digits, or with the root of one? Such results come out exact."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.parametrized import given_in_turn
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.returned import made_results
from detlint.linter.numbers.hand_worked import exact_number
from detlint.linter.numbers.one_source import source_of
from detlint.linter.numbers.written_results import written_as
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

# Tensors written out as numbers.
_LITERALS = frozenset({"torch.tensor", "torch.as_tensor", "torch.Tensor", "numpy.array", "torch.full", "torch.ones"})
_HUGE = 1e300
# Roots are rounded as the exact ones would be, on every machine.
_ROOTS = frozenset({"math.sqrt", "numpy.sqrt", "torch.sqrt", "torch.Tensor.sqrt"})
_HANDING_ON = frozenset({"builtins.float", "torch.tensor", "numpy.array", "numpy.asarray"})
_DEPTH = 6


def is_simple(number: float) -> bool:
    """Return whether a number has few binary digits, so that short sums and products of its like are exact."""
    return abs(number) >= _HUGE or number * 16 == int(number * 16)


def is_simple_by_hand(node: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`torch.tensor([0.5, 1.0])`, `1.5 * 4.0`, and `math.sqrt(6.0)`, which another side is that is a root as well."""
    runs = given_in_turn(ctx.module, node) if isinstance(node, ast.Name) else []
    if runs:
        return all(is_simple_by_hand(run, other, ctx) for run in runs)
    number = exact_number(ctx.module, node)
    if number is not None:
        return is_simple(number)
    root = written_as(ctx.module, node)
    if isinstance(root, ast.Call) and len(root.args) == 1 and not _ROOTS.isdisjoint(ctx.callees(root)):
        under = exact_number(ctx.module, root.args[0])
        return under is not None and is_simple(under) and _is_root(ctx.module, other)
    return _holds_simple_numbers(node, ctx)


def _holds_simple_numbers(node: ast.expr, ctx: Context) -> bool:
    """`torch.tensor([0.5, 1.0])`, also under a name or seen through `.view(-1)`."""
    node = source_of(node, ctx)
    if not isinstance(node, ast.Call) or not node.args or not _LITERALS.intersection(ctx.resolve(node.func)):
        return False
    numbers = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
    names = any(isinstance(part, (ast.Name, ast.Call)) for part in ast.walk(node.args[0]))
    return not names and all(isinstance(number, (int, float)) and is_simple(number) for number in numbers)


def is_filled_with_number(node: ast.expr, ctx: Context) -> bool:
    """`torch.full_like(x, 0.205)`: one number that somebody chose."""
    made = source_of(node, ctx)
    number = made.args[1:2] if isinstance(made, ast.Call) and identifier(made.func) in ("full", "full_like") else []
    return any(isinstance(ctx.constant(each), (int, float)) for each in number)


def _is_root(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Is a root the last thing that is worked out: in `float(np.sqrt(x))`, in a function that gives such a one?"""
    node = written_as(module, node)
    if not isinstance(node, ast.Call) or not depth:
        return False
    names = module.inference.callees(node)
    if not _ROOTS.isdisjoint(names):
        return True
    if not _HANDING_ON.isdisjoint(names) and node.args:
        return _is_root(module, node.args[0], depth - 1)
    if isinstance(node.func, ast.Attribute) and identifier(node.func) in rounding_table().keeping:
        return _is_root(module, node.func.value, depth - 1)
    found = [module.project.definition(name) for name in names]
    functions = [(owner, made) for owner, made in filter(None, found) if isinstance(made, FUNCTIONS)]
    returned = [(owner, value) for owner, made in functions for value in made_results(owner, made)]
    return bool(returned) and all(value is not None and _is_root(owner, value, depth - 1) for owner, value in returned)
