"""Which branches of a Triton kernel are compiled? What it is tuned or launched with decides `if SPLIT_K == 1:`."""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING, Context
from detlint.linter.analysis.releases import COMPARED
from detlint.linter.programs.configurations import tried
from detlint.linter.source.names import BindingKind, FunctionNode


def is_compiled_out(node: ast.AST, ctx: Context) -> bool:
    """Return whether a constant, the same wherever its kernel is launched, keeps a node out of what is compiled."""
    kernel = ctx.function(node)
    if kernel is None:
        return False
    conditions = ctx.module.index.conditions_around(node)
    return any(_holds(test, kernel, ctx) is Truth.of(not holds) for test, holds in conditions)


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
