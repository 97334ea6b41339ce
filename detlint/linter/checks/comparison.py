"""Comparisons that ask floating-point results for more than they can hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from detlint.findings import Finding
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.differences import difference
from detlint.linter.numbers.given_to_helpers import given_to_compare
from detlint.linter.numbers.insisting import insists, insists_on_equality, is_over_all, is_said, refuses_any
from detlint.linter.numbers.named_results import is_called_result, is_of_operation, is_result
from detlint.linter.numbers.optimised import are_trained_apart
from detlint.linter.numbers.routes import are_apart, maker_of, share_inputs
from detlint.linter.numbers.shares import adds_up_to_one
from detlint.linter.numbers.written_results import is_given_by_call, is_written_result
from detlint.linter.source.nodes import identifier, receiver_of
from detlint.linter.tables.rounding import rounding_table

# Functions that fail by themselves where two sides are not equal.
_ASSERTING = ("assert", "test_")
# A place and what is said of it.
_Related: TypeAlias = tuple[Module, ast.AST, str]
_NAMED = (is_result, is_called_result, is_of_operation)


@check("DET501")
def exact_float_comparison(call: Call, ctx: Context) -> Iterator[Finding]:
    """Functions that tell whether two sides are equal: one has to insist on it."""
    name = call.name.rpartition(".")[2]
    sides = [call.argument(parameter.name).value for parameter in call.trigger.parameters]
    if call.trigger.name.startswith("torch.Tensor.") and isinstance(call.node.func, ast.Attribute):
        sides = [call.node.func.value, *sides]
    asserts = name.startswith(_ASSERTING)
    asked = asserts or (is_over_all(call.node, ctx) if name == "eq" else insists(call.node, ctx))
    related = _differing(sides[0], sides[1], ctx) if asked and sides[0] is not None and sides[1] is not None else None
    if related is not None:
        yield ctx.finding(call.node, related=related, what=name)


@check("DET501", nodes=(ast.Compare,))
def exact_float_equality(compare: ast.Compare, ctx: Context) -> Iterator[Finding]:
    """`==` in an assert or over all elements in one; `!=` that is refused; a difference that has to be zero."""
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], (ast.Eq, ast.NotEq)):
        return
    related = _differing(compare.left, compare.comparators[0], ctx) if insists_on_equality(compare, ctx) else None
    if related is not None:
        yield ctx.finding(compare, related=related, what="==" if isinstance(compare.ops[0], ast.Eq) else "!=")


@check("DET501", calls=("ne", "not_equal"))
def counted_inequality(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`wrong = torch.ne(a, b).sum().item()`, `if wrong: raise …`."""
    apart = difference(ctx.module, call)
    related = _differing(*apart, ctx) if apart is not None and refuses_any(call, ctx, counted=True) else None
    if related is not None:
        yield ctx.finding(call, related=related, what=identifier(call.func))


@check("DET501", calls=("any", "count_nonzero", "flatnonzero", "nonzero"))
def exact_zero_difference(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`assert not (a - b).any()`, `if torch.any(a - b): raise …`, `if np.count_nonzero(a - b) > 0: raise …`."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) and not ctx.resolve(call.func.value) else None
    asked = receiver or next(iter(call.args), None)
    apart = difference(ctx.module, asked) if asked is not None and not isinstance(asked, ast.Compare) else None
    refused = asked is not None and apart is not None and refuses_any(asked, ctx)
    related = _differing(*apart, ctx) if refused and apart is not None else None
    if related is not None:
        yield ctx.finding(call, related=related, what=identifier(call.func))


@check_file("DET501")
def exact_equality_of_results(ctx: Context) -> Iterator[Finding]:
    """`assert grads.equal(others)`, where nothing but what was computed tells that `grads` are tensors."""
    known = ctx.rule.triggers_by_name
    for call in ctx.module.index.calls_by_name.get("equal", ()):
        receiver = receiver_of(call)
        if receiver is None or len(call.args) != 1 or not known.keys().isdisjoint(ctx.callees(call)):
            continue
        asked = insists(call, ctx) and is_computed(ctx.module, receiver)
        related = _differing(receiver, call.args[0], ctx) if asked else None
        if related is not None:
            yield ctx.finding(call, related=related, what="equal")


def _differing(left: ast.expr, right: ast.expr, ctx: Context) -> list[_Related] | None:
    """Can two sides differ by rounding, as they are written or as a helper is given them? Then return those calls."""
    if is_said(left, ctx):  # what one machine gave is no matter of copies, whatever the function is called
        return [] if _was_written_down(left, right, ctx) else None
    if _differ_here(left, right, ctx):
        return []
    if any(True for _ in ctx.module.index.branches_around(ctx.statement(left))):
        return None  # a helper that compares what is of some kind or other
    zero = next((side for side in (left, right) if ctx.constant(side) == 0), None)
    apart = difference(ctx.module, right if zero is left else left) if zero is not None else None
    given = given_to_compare(*(apart or (left, right)), ctx)
    sites = [site for first, second, site in given if _differ_here(first, second, site.inside)]
    return [(site.inside.module, site.call, "given here") for site in sites] or None


def _differ_here(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Return whether two sides are shown to differ by rounding, or those of a difference that has to be zero are."""
    zero = next((side for side in (left, right) if ctx.constant(side) == 0), None)
    if zero is not None:
        apart = difference(ctx.module, right if zero is left else left)
        return apart is not None and _are_rounded_apart(*apart, ctx)
    if _are_rounded_apart(left, right, ctx) or _was_written_down(left, right, ctx):
        return True
    return adds_up_to_one(left, right, ctx) or adds_up_to_one(right, left, ctx)


def _was_written_down(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """`net(x)[0].item() == 0.2110687494277954`: is a result compared with what it once was?"""
    return any(
        is_written_result(ctx.module, one) and is_given_by_call(ctx.module, other)
        for one, other in ((left, right), (right, left))
    )


def _are_rounded_apart(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Do two results come of different code, of which both round, or one does and the other has the same inputs?"""
    sides = (left, right)
    if any(value.is_integral for side in sides for value in ctx.values(side)):
        return False
    rounded = [side for side in sides if is_computed(ctx.module, side)]
    results = [side for side in sides if side in rounded or any(kind(ctx.module, side) for kind in _NAMED)]
    if len(results) == 2:
        return are_apart(left, right, ctx) and (bool(rounded) or not _are_of_one_function(left, right, ctx))
    if len(results) == 1 and (rounded or isinstance(maker_of(results[0], ctx), ast.BinOp)):
        other = right if results[0] is left else left
        meant = share_inputs(left, right, ctx) or _says_expected(results[0])
        return meant and isinstance(maker_of(other, ctx), (ast.Call, ast.BinOp)) and are_apart(left, right, ctx)
    return are_trained_apart(left, right, ctx)


def _are_of_one_function(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """`loss(x)` and `loss(x.flip(0))`: that a function rounds is told by its name alone, and it is but one."""
    made = [maker_of(side, ctx) for side in (left, right)]
    called = [ast.unparse(each.func) for each in made if isinstance(each, ast.Call)]
    return len(called) == 2 and called[0] == called[1]


def _says_expected(side: ast.expr) -> bool:
    """`expected`, `out_ref`: a value by its name that another one is meant to have."""
    return not rounding_table().expecting.isdisjoint(identifier(side).lower().split("_"))
