"""Comparisons within tolerances that are finer than the compared numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from detlint.findings import Finding
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.numbers.arrays import FILLED
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.default_precision import has_default_dtype
from detlint.linter.numbers.differences import difference
from detlint.linter.numbers.dtype_branches import dtype_branches
from detlint.linter.numbers.frames import Frame
from detlint.linter.numbers.given_to_helpers import given_to_compare, unviewed
from detlint.linter.numbers.inexact import is_inexact
from detlint.linter.numbers.insisting import insists_on_bound, is_answer, is_meant_to_differ
from detlint.linter.numbers.precision import EPSILON, cast_to_coarse, is_cast_result, precision
from detlint.linter.numbers.routes import is_handed_on, is_one_computation, maker_of, operands, reads
from detlint.linter.numbers.sources import source_of
from detlint.linter.numbers.tolerances import Tolerance, allowed, registered, registered_runs, said
from detlint.linter.numbers.written_results import is_written_out
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_LESS = ("assertLess", "assertLessEqual")
_COARSEST = max(EPSILON.values())
_IDENTITIES = ("eye", "identity", "eye_like")
_LITERALS = ("array", "tensor", "asarray")
_DEFAULT = "float32"
# Tolerances that no result of float32 meets but by chance: others may be for numbers close to zero.
_FAR_BELOW_DEFAULT = EPSILON[_DEFAULT] / 10
_BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@check("DET502")
def tolerance_below_precision(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where a tolerance or the dtype is not known, where both tolerances are zero on purpose, and in denials."""
    if is_meant_to_differ(call.node, ctx) and not is_answer(call.node, ctx):
        return  # that two results differ is shown best by a fine tolerance
    if call.name.rpartition(".")[2] in _LESS:
        yield from _bounded(call.node, call.argument("a").value, call.argument("b").value, ctx)
        return
    what, tolerance, sides = call.name.rpartition(".")[2], allowed(call, ctx), _sides(call, ctx)
    found = list(_judged(call.node, what, tolerance, sides, ctx)) if tolerance is not None else []
    found = found or list(_judged_by_dtype(call, what, sides, ctx))
    yield from found or _judged_where_called(call, what, sides, ctx)


def _judged_by_dtype(call: Call, what: str, sides: list[ast.expr], ctx: Context) -> Iterator[Finding]:
    """`if dtype == torch.float16: rtol, atol = 1e-5, 1e-6`, and then `torch.allclose(ours, theirs, rtol, atol)`."""
    for branch in dtype_branches((call.argument(each.name).value for each in call.trigger.parameters[2:]), ctx):
        tolerance = allowed(call, ctx, branch)
        if tolerance is not None and tolerance.is_finer_than(branch.dtype) and _is_rounded(sides, ctx):
            places = dict.fromkeys(map(ctx.statement, branch.values.values()))
            set_here = [(ctx.module, place, f"set for {branch.dtype}") for place in places]
            yield _finding(call.node, what, tolerance, branch.dtype, ctx, set_here)
            return


def _judged_where_called(call: Call, what: str, sides: list[ast.expr], ctx: Context) -> Iterator[Finding]:
    """`assert_close(net(x), expected, rtol=1e-9)`, a helper of the project that compares what it is given.

    Where the caller chooses the tolerance, the finding is there, unless that is in another file.
    """
    for first, second, site in given_to_compare(sides[0], sides[1], ctx) if len(sides) == 2 else ():
        tolerance = allowed(site.told(call), ctx, site)
        dtype = _too_coarse(tolerance, [first, second], site.inside) if tolerance is not None else None
        if tolerance is not None and dtype is not None:
            chosen = tolerance != allowed(call, ctx) and site.inside.module is ctx.module
            yield _finding(site.call if chosen else call.node, what, tolerance, dtype, ctx)
            if not chosen:
                return


@check("DET502", nodes=(ast.Compare,))
def bound_below_precision(compare: ast.Compare, ctx: Context) -> Iterator[Finding]:
    """`assert (a - b).abs().max() < 1e-9`."""
    bound = compare.comparators[0]
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], _BOUNDS):
        return
    if isinstance(bound, ast.Constant) and not (isinstance(bound.value, float) and bound.value < _COARSEST / 2):
        return
    if insists_on_bound(compare, ctx):
        yield from _bounded(compare, compare.left, bound, ctx)


def _bounded(node: ast.expr, size: ast.expr | None, bound: ast.expr | None, ctx: Context) -> Iterator[Finding]:
    number = said(bound, ctx)
    if size is None or not isinstance(number, float) or number <= 0:
        return
    apart = difference(ctx.module, size)
    if apart is not None:
        yield from _judged(node, "the comparison", Tolerance(f"{number:g}", number), list(apart), ctx)


@check("DET502", nodes=(ast.Dict,))
def registered_tolerance_below_precision(table: ast.Dict, ctx: Context) -> Iterator[Finding]:
    """`TOLERANCES = {torch.float16: {"rtol": 1e-6, "atol": 1e-6}}`."""
    for key, dtype, tolerance in registered(table, ctx):
        if tolerance.is_finer_than(dtype):
            yield _finding(key, "the table", tolerance, dtype, ctx)


@check_file("DET502")
def parametrized_tolerance_below_precision(ctx: Context) -> Iterator[Finding]:
    """`@pytest.mark.parametrize("dtype, rtol, atol", [(torch.float16, 1e-6, 1e-6)])`."""
    for decorator in ctx.module.index.calls_by_name.get("parametrize", ()):
        for place, dtype, tolerance in registered_runs(decorator, ctx):
            if tolerance.is_finer_than(dtype):
                yield _finding(place, "the test", tolerance, dtype, ctx)


def _sides(call: Call, ctx: Context) -> list[ast.expr]:
    """Return what is compared: two arguments, the receiver and one, or what `pytest.approx(x)` is compared with."""
    sides = [call.argument(parameter.name).value for parameter in call.trigger.parameters[:2]]
    if call.is_method and isinstance(call.node.func, ast.Attribute) and call.name.startswith("torch."):
        sides = [call.node.func.value, sides[0]]
    if call.name == "pytest.approx":
        around = ctx.parent(call.node)
        others = [around.left, *around.comparators] if isinstance(around, ast.Compare) else []
        sides = [sides[0], *(other for other in others if other is not call.node)]
    return [side for side in sides if side is not None]


def _judged(node: ast.expr, what: str, tolerance: Tolerance, sides: list[ast.expr], ctx: Context) -> Iterator[Finding]:
    dtype = _too_coarse(tolerance, sides, ctx)
    if dtype is not None:
        yield _finding(node, what, tolerance, dtype, ctx)


def _too_coarse(tolerance: Tolerance, sides: list[ast.expr], ctx: Context) -> str | None:
    """Return the dtype behind what is compared where it cannot hold what the tolerance asks for.

    Of `torch.eye(n)` most is zero, from which only the absolute tolerance tells how far a sum of products may be.
    """
    if tolerance.from_zero is not None and any(_is_identity(side, ctx) for side in sides):
        tolerance = replace(tolerance, bound=tolerance.from_zero)
    if tolerance.bound >= _COARSEST / 2:
        return None
    dtypes = [dtype for side in sides if (dtype := precision(ctx.module, side)) is not None]
    if not dtypes and tolerance.bound < _FAR_BELOW_DEFAULT and has_default_dtype(sides, ctx):
        dtypes = [_DEFAULT]
    if not dtypes or not _is_rounded(sides, ctx):
        return None
    coarsest = max(dtypes, key=lambda dtype: EPSILON[dtype])
    return coarsest if tolerance.is_finer_than(coarsest) else None


def _is_identity(side: ast.expr, ctx: Context) -> bool:
    return identifier(getattr(source_of(side, ctx), "func", None)) in _IDENTITIES


def _is_rounded(sides: list[ast.expr], ctx: Context) -> bool:
    """Was one side worked out and rounded, and is the other one no exact number, nor the same numbers handed on?"""
    if len(sides) == 2 and (is_one_computation(sides[0], sides[1], ctx) or is_handed_on(sides[0], sides[1], ctx)):
        return False
    if any(_is_exact_number(side, ctx) for side in sides):
        return False
    return any(_is_worked_out(side, ctx) for side in sides) or _are_both_cast(sides, ctx)


def _is_exact_number(side: ast.expr, ctx: Context) -> bool:
    """`1.25`, `np.array([[2.0, 6.0]])`: numbers of few binary digits, which results are that come out exact."""
    made = source_of(side, ctx)
    written = made.args[0] if isinstance(made, ast.Call) and made.args and identifier(made.func) in _LITERALS else made
    return is_written_out(ctx.module, written) and not is_inexact(Frame(ctx.module), written)


def _are_both_cast(sides: list[ast.expr], ctx: Context) -> bool:
    """`assert_close(actual.half(), expected.half())`: rounded for the comparison, so that they were finer before."""
    rounded = [cast for side in sides if (cast := cast_to_coarse(ctx.module, side)) is not None]
    if len(rounded) < len(sides) or len(sides) != 2:
        return False
    sources = [source_of(unviewed(cast), ctx) for cast in rounded]
    if any(isinstance(source, ast.Call) and identifier(source.func) in FILLED for source in sources):
        return False  # `cache = torch.zeros(n).half()`, which holds what was put there since
    if any(isinstance(source, ast.Call) and reads(source.func) for source in sources):
        return False  # what was saved before comes back as it was
    views = list(map(ast.unparse, sources))
    return views[0] != views[1]


def _finding(
    node: ast.expr,
    what: str,
    tolerance: Tolerance,
    dtype: str,
    ctx: Context,
    related: Sequence[tuple[Module, ast.AST, str]] = (),
) -> Finding:
    eps = f"{EPSILON[dtype]:g}"
    return ctx.finding(node, related=related, call=what, tolerance=tolerance.text, dtype=dtype, eps=eps)


def _is_worked_out(side: ast.expr, ctx: Context) -> bool:
    """Return whether a side was computed and rounded, and is no copy or selection that keeps the bits of its dtype."""
    return is_computed(ctx.module, side) or is_cast_result(ctx.module, side) or _is_worked_out_coarsely(side, ctx)


def _is_worked_out_coarsely(side: ast.expr, ctx: Context) -> bool:
    """`torch.mm(x.half(), w.half())`: what is made of numbers that were rounded to a coarse dtype is rounded to it."""
    made = maker_of(side, ctx)
    rounds = isinstance(made, ast.BinOp) or identifier(getattr(made, "func", None)) in rounding_table().rounding
    return rounds and any(cast_to_coarse(ctx.module, part) is not None for part in operands(made))
