"""Comparisons that ask floating-point results for more than they can hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.computed import is_computed
from detlint.linter.context import MISSING, Call, Context
from detlint.linter.precision import EPSILON, precision
from detlint.linter.registry import check
from detlint.linter.values import Kind

# Saving, loading and copying keep every bit, and so does computing again from the same state.
_ROUND_TRIPS = frozenset(
    {"save", "load", "load_state_dict", "save_pretrained", "from_pretrained", "deepcopy", "dump", "dumps", "loads"}
)
_PLAIN = frozenset(
    {
        "torch.zeros",
        "torch.zeros_like",
        "torch.ones_like",
        "numpy.zeros",
        "builtins.len",
        "pytest.approx",
        "unittest.mock.ANY",
    }
)
_WORDS_OF_INTENT = ("determin", "reproduc", "bitwise", "identical", "exact", "seed", "invarian")


@check("DET501")
def exact_float_comparison(call: Call, ctx: Context) -> Iterator[Finding]:
    """Equality functions: silent for copies, integers, round trips and tests of determinism."""
    names = [parameter.name for parameter in call.trigger.parameters]
    sides = [call.argument(name).value for name in names]
    if call.is_method and isinstance(call.node.func, ast.Attribute):
        sides = [call.node.func.value, *sides]
    first, second = (*sides, None, None)[:2]
    if isinstance(ctx.parent(call.node), ast.UnaryOp):
        return  # `assert not torch.equal(a, b)`: they are meant to differ
    if first is not None and second is not None and _differ_by_rounding(first, second, ctx):
        yield ctx.finding(call.node, what=call.name.rpartition(".")[2])


@check("DET501", nodes=(ast.Compare,))
def exact_float_equality(compare: ast.Compare, ctx: Context) -> Iterator[Finding]:
    """`==` in an assert, or over all elements."""
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Eq):
        return
    if (_is_asserted(compare, ctx) or _is_over_all(compare, ctx)) and _differ_by_rounding(
        compare.left, compare.comparators[0], ctx
    ):
        yield ctx.finding(compare, what="==")


def _is_asserted(compare: ast.Compare, ctx: Context) -> bool:
    parent = ctx.parent(compare)
    while isinstance(parent, ast.BoolOp):
        parent = ctx.parent(parent)
    return isinstance(parent, ast.Assert)


def _is_over_all(compare: ast.Compare, ctx: Context) -> bool:
    parent = ctx.parent(compare)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "all"
    return isinstance(parent, ast.Call) and bool(
        {"torch.all", "numpy.all", "builtins.all"}.intersection(ctx.resolve(parent.func))
    )


def _differ_by_rounding(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    computed = [is_computed(ctx.module, side) for side in (left, right)]
    if not any(computed) or _is_plain(left, ctx) or _is_plain(right, ctx):
        return False
    if all(computed) and _origin(left, ctx) == _origin(right, ctx):
        return False
    if not all(computed) and not _is_value(right if computed[0] else left, ctx):
        return False
    return not _keeps_bits(left, ctx)


def _is_plain(node: ast.expr, ctx: Context) -> bool:
    """Zero, infinities and whole numbers other than 1.0 are results of masks and clamps, not of arithmetic."""
    value = ctx.constant(node)
    if value is MISSING:
        made = [name for part in _behind(node, ctx) if isinstance(part, ast.Call) for name in ctx.resolve(part.func)]
        return any(name in _PLAIN for name in made)
    return not isinstance(value, float) or (value == int(value) and value != 1.0 if abs(value) < 1e300 else True)


def _behind(node: ast.expr, ctx: Context) -> Iterator[ast.AST]:
    """Every part of an expression, or of what a variable was set to."""
    if isinstance(node, ast.Name):
        for binding in ctx.module.definitions(node):
            if binding.value is not None:
                yield from ast.walk(binding.value)
    else:
        yield from ast.walk(node)


def _is_value(node: ast.expr, ctx: Context) -> bool:
    """The other side: a float, a tensor or an array, as far as can be told."""
    if isinstance(ctx.constant(node), float):
        return True
    values = ctx.values(node)
    if any(value.is_integral for value in values):
        return False
    if any(value.kind in (Kind.TENSOR, Kind.ARRAY) for value in values):
        return True
    return isinstance(node, (ast.Subscript, ast.Call)) and all(value.kind is Kind.UNKNOWN for value in values)


def _origin(node: ast.expr, ctx: Context) -> str:
    """The text of the computation behind a name: equal texts mean the same computation, done twice."""
    if isinstance(node, ast.Name):
        for binding in ctx.module.definitions(node):
            if binding.value is not None:
                return _origin(binding.value, ctx)
    return ast.unparse(node)


def _keeps_bits(node: ast.expr, ctx: Context) -> bool:
    function = ctx.function(node)
    if function is None:
        return False
    if any(word in function.name.lower() for word in _WORDS_OF_INTENT):
        return True
    for part in ast.walk(function):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name in _ROUND_TRIPS or name in ("manual_seed", "set_rng_state", "use_deterministic_algorithms"):
            return True
    return False


@check("DET502")
def tolerance_below_precision(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where a tolerance or the dtype is not known, and where both tolerances are zero on purpose."""
    relative, absolute = (ctx.constant(call.argument(name).value) for name in ("rtol", "atol"))
    if not isinstance(relative, (int, float)) or not isinstance(absolute, (int, float)):
        return
    if relative == 0 and absolute == 0:
        return
    sides = [call.argument(parameter.name).value for parameter in call.trigger.parameters[:2]]
    if call.is_method and isinstance(call.node.func, ast.Attribute):
        sides = [call.node.func.value, sides[0]]
    dtypes = [dtype for side in sides if side is not None and (dtype := precision(ctx.module, side)) is not None]
    if not dtypes:
        return
    coarsest = max(dtypes, key=lambda dtype: EPSILON[dtype])
    if relative + absolute < EPSILON[coarsest] / 2:
        yield ctx.finding(
            call.node,
            call=call.name.rpartition(".")[2],
            tolerance=f"rtol={relative:g}, atol={absolute:g}",
            dtype=coarsest,
            eps=f"{EPSILON[coarsest]:g}",
        )
