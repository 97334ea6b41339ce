"""Which branches of a Triton kernel are compiled? What it is tuned or launched with decides `if SPLIT_K == 1:`."""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING, Context
from detlint.linter.analysis.guards import conditions_met
from detlint.linter.analysis.releases import COMPARED
from detlint.linter.analysis.returned import returned_by
from detlint.linter.programs.configurations import tried
from detlint.linter.source.names import BindingKind, FunctionNode

_ASKS = "torch.are_deterministic_algorithms_enabled"
_MAX_STEPS = 4


def is_compiled_out(node: ast.AST, ctx: Context) -> bool:
    """Return whether a constant, the same wherever its kernel is launched, keeps a node out of what is compiled."""
    kernel = ctx.function(node)
    if kernel is None:
        return False
    conditions = ctx.module.index.conditions_around(node)
    return any(_holds(test, kernel, ctx) is Truth.of(not holds) for test, holds in conditions)


def is_left_out_on_request(node: ast.AST, ctx: Context) -> bool:
    """`else` of `if DETERMINISTIC:`, of a kernel that is always launched with what asks torch for that."""
    kernel = ctx.function(node)
    if kernel is None:
        return False
    return any(
        isinstance(test, ast.Name) and not holds and _is_launched_on_request(test.id, kernel, ctx)
        for test, holds in conditions_met(node, ctx)
    )


def _is_launched_on_request(name: str, kernel: FunctionNode, ctx: Context) -> bool:
    """What reads `kernel.configs` is no launch."""
    sites = (site for site in calls_of(kernel, ctx) if site is not None)
    given = [(argument_of(kernel, name, call, skip_self=False), inside) for inside, call in sites]
    return bool(given) and all(value is not None and _asks_torch(value, inside) for value, inside in given)


def _asks_torch(value: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`torch.are_deterministic_algorithms_enabled()`, by name too, or out of a function where nothing else is said."""
    if steps == 0:
        return False
    if isinstance(value, ast.Name):
        made = [binding.value for binding in ctx.module.definitions(value)]
        return bool(made) and all(each is not None and _asks_torch(each, ctx, steps - 1) for each in made)
    if isinstance(value, ast.BoolOp):
        return any(_asks_torch(part, ctx, steps) for part in value.values)
    if not isinstance(value, ast.Call):
        return False
    names = ctx.callees(value)
    if _ASKS in names:
        return True
    return any(_asks_torch(result, inside, steps - 1) for result, inside in returned_by(names, ctx) or ())


def _holds(test: ast.expr, kernel: FunctionNode, ctx: Context) -> Truth:
    """`SPLIT_K == 1`, `USE_ATOMICS`, `not USE_ATOMICS`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ~_holds(test.operand, kernel, ctx)
    if isinstance(test, ast.Name):
        value = _only_constant(test, kernel, ctx)
        return Truth.UNKNOWN if value is MISSING else Truth.of(bool(value))
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return Truth.UNKNOWN
    compare, asked = COMPARED.get(type(test.ops[0])), ctx.constant(test.comparators[0])
    value = _only_constant(test.left, kernel, ctx) if compare is not None and asked is not MISSING else MISSING
    if compare is None or value is MISSING:
        return Truth.UNKNOWN
    try:
        return Truth.of(compare(value, asked))
    except TypeError:  # None > 1
        return Truth.UNKNOWN


def _only_constant(name: ast.expr, kernel: FunctionNode, ctx: Context) -> object:
    """Return what a parameter of a kernel always is; MISSING where that differs or is not written out."""
    bindings = ctx.module.definitions(name) if isinstance(name, ast.Name) else ()
    if not isinstance(name, ast.Name) or [binding.kind for binding in bindings] != [BindingKind.PARAMETER]:
        return MISSING
    values = _tuned(name.id, kernel, ctx) or _launched(name.id, kernel, ctx)
    return values[0] if values and all(value == values[0] for value in values) else MISSING


def _tuned(name: str, kernel: FunctionNode, ctx: Context) -> list[object]:
    """Return what the configurations set a parameter to: no launch may give it besides."""
    tuners = (each for each in kernel.decorator_list if isinstance(each, ast.Call))
    values = [value for tuner in tuners for value in tried(tuner, ctx).get(name, ())]
    return [value.value if isinstance(value, ast.Constant) else MISSING for value in values]


def _launched(name: str, kernel: FunctionNode, ctx: Context) -> list[object]:
    """Return what the launches give for a parameter, `MISSING` for what is not written out."""
    sites = tuple(calls_of(kernel, ctx))
    given = [argument_of(kernel, name, site[1], skip_self=False) if site is not None else None for site in sites]
    return [MISSING if value is None else ctx.constant(value) for value in given]
