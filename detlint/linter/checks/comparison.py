"""Comparisons that ask floating-point results for more than they can hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import MISSING, Call, Context
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_here import kept_in, made_here, whole_here, written_out
from detlint.linter.numbers.computed import after_start, is_computed, is_of_shares, is_product_with_itself
from detlint.linter.numbers.convergence import stops_at_equality, stops_at_repetition
from detlint.linter.numbers.differences import difference, within_nothing
from detlint.linter.numbers.given_to_helpers import given_to_compare
from detlint.linter.numbers.hand_worked import is_made_of_tensors, is_worked_by_hand
from detlint.linter.numbers.insisting import (
    insists_on_equality,
    is_meant_to_differ,
    is_never_read,
    is_over_all,
    is_over_elements,
    refuses_any,
)
from detlint.linter.numbers.kept_bits import is_loaded, keep_bits
from detlint.linter.numbers.meant import adds_up_to_one, is_meant_to_be_zero
from detlint.linter.numbers.named_results import is_called_result, is_of_operation, is_result
from detlint.linter.numbers.one_source import (
    are_rows_of_one,
    is_given_back,
    is_given_by_mock,
    is_passed,
    is_recorded,
    is_repeated,
    made_as,
)
from detlint.linter.numbers.optimised import are_trained_apart
from detlint.linter.numbers.simple_numbers import is_filled_with_number, is_simple, is_simple_by_hand
from detlint.linter.numbers.tolerances import is_left_unread, is_set_for_case
from detlint.linter.numbers.twins import are_of_twins
from detlint.linter.numbers.wrappers import is_handed_on
from detlint.linter.numbers.written_results import is_given_by_call, is_written_result
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import identifier, is_own

# Comparisons that only tensors can pass, so that an operand nothing is known about is one too.
_OF_TENSORS = (
    *(f"torch.{name}" for name in ("equal", "eq", "allclose", "isclose")),
    *(f"torch.Tensor.{name}" for name in ("equal", "eq", "allclose")),
    *(f"torch.testing.{name}" for name in ("assert_close", "assert_allclose")),
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
# Methods whose results are meant to be 1.0 and miss it by rounding.
_ONES = frozenset({"torch.ones", "torch.ones_like"})
_TO_ONE = ("sum", "norm", "std", "var")
_OF_TENSORS_ALONE = ("detach", "numpy", "cpu")
_EXPECTED = frozenset({"expected", "reference", "golden", "desired"})
_METHODS = ("equal", "eq", "allclose")
# How one side may hold the very numbers of the other one.
_SAME_NUMBERS = (is_passed, is_given_back, is_recorded, is_given_by_mock)
_TEST_CASE = "TestCase"
_APPROXIMATE = "pytest.approx"
# Functions that compare within tolerances ask for equal bits where both are zero.
_TOLERANCES = ("rtol", "atol", "rel_tol", "abs_tol")


@check("DET501")
def exact_float_comparison(call: Call, ctx: Context) -> Iterator[Finding]:
    """Equality functions: silent for copies, integers, round trips and tests of determinism."""
    names = [parameter.name for parameter in call.trigger.parameters]
    if any(name in _TOLERANCES and ctx.constant(call.argument(name).value) != 0 for name in names):
        return
    sides = [call.argument(name).value for name in names]
    if _zero_is_said_of_number(call, names, sides, ctx):
        return
    if call.trigger.name.startswith("torch.Tensor.") and isinstance(call.node.func, ast.Attribute):
        sides = [call.node.func.value, *sides]
    first, second = (*sides, None, None)[:2]
    if first is not None and second is not None and stops_at_equality(call.node, first, second, ctx):
        yield ctx.finding(call.node, what=call.name.rpartition(".")[2])
        return
    by_element = _is_by_element(call) and not is_over_all(call.node, ctx)
    if by_element or is_never_read(call.node, ctx) or is_meant_to_differ(call.node, ctx):
        return
    tensors = call.name in _OF_TENSORS
    if first is None or second is None:
        return
    if _differ(first, second, ctx, tensors) or (tensors and is_left_unread(call.node, ctx)):
        yield ctx.finding(call.node, what=call.name.rpartition(".")[2])


def _zero_is_said_of_number(call: Call, names: list[str], sides: list[ast.expr | None], ctx: Context) -> bool:
    """`assert_close(x.grad, torch.full_like(x, 0.205), rtol=0, atol=0)`: a number is told to be met exactly."""
    said = any(name in _TOLERANCES and call.argument(name).given for name in names)
    return said and any(side is not None and is_filled_with_number(side, ctx) for side in sides[:2])


def _is_by_element(call: Call) -> bool:
    return call.name.rpartition(".")[2] in ("eq", "isclose") and not call.name.startswith("math.")


@check("DET501", nodes=(ast.Compare,))
def exact_float_equality(compare: ast.Compare, ctx: Context) -> Iterator[Finding]:
    """`==` in an assert, over all elements, or where a loop stops; `!=` that is refused."""
    if len(compare.ops) != 1:
        return
    apart = within_nothing(compare, ctx)
    if apart is not None and _differ(*apart, ctx):
        yield ctx.finding(compare, what="<=" if isinstance(compare.ops[0], ast.LtE) else ">")
    if not isinstance(compare.ops[0], (ast.Eq, ast.NotEq)):
        return
    left, right = (_unbounded(side, ctx) for side in (compare.left, compare.comparators[0]))
    insists = insists_on_equality(compare, ctx) and _differ(left, right, ctx, is_over_elements(compare, ctx))
    if insists or stops_at_repetition(compare, ctx):
        yield ctx.finding(compare, what="==" if isinstance(compare.ops[0], ast.Eq) else "!=")


def _unbounded(side: ast.expr, ctx: Context) -> ast.expr:
    """Return `y` of `pytest.approx(y, rel=0, abs=0)`; without `rel` no relative error is allowed beside `abs=0`."""
    if not isinstance(side, ast.Call) or _APPROXIMATE not in ctx.callees(side) or not side.args:
        return side
    bounds = {keyword.arg: ctx.constant(keyword.value) for keyword in side.keywords}
    return side.args[0] if bounds.get("abs", MISSING) == 0 and bounds.get("rel", 0) == 0 else side


@check("DET501", calls=("any",))
def exact_zero_difference(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`assert not (a - b).any()`, `if torch.any(a - b): raise …`."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) and not ctx.resolve(call.func.value) else None
    asked = receiver or next(iter(call.args), None)
    if asked is None or isinstance(made_as(asked, ctx) or asked, ast.Compare) or not refuses_any(asked, ctx):
        return
    apart = difference(ctx.module, asked)
    if apart is not None and _differ(*apart, ctx, tensors=True):
        yield ctx.finding(call, what="any")


@check_file("DET501")
def exact_equality_of_results(ctx: Context) -> Iterator[Finding]:
    """`grads.equal(others)`, where nothing but what was computed tells that `grads` are tensors."""
    names = ctx.rule.triggers_by_name
    for call in (call for name in _METHODS for call in ctx.module.index.calls_by_name.get(name, ())):
        receiver, method = (call.func.value, call.func.attr) if isinstance(call.func, ast.Attribute) else (None, "")
        if receiver is None or len(call.args) != 1 or not names.keys().isdisjoint(ctx.callees(call)):
            continue
        bounds = [ctx.constant(keyword.value) for keyword in call.keywords if keyword.arg in _TOLERANCES]
        if (method == "eq" and not is_over_all(call, ctx)) or (method == "allclose" and bounds != [0, 0]):
            continue
        computed = is_computed(ctx.module, receiver) and not is_meant_to_differ(call, ctx)
        if computed and _differ(receiver, call.args[0], ctx, tensors=True):
            yield ctx.finding(call, what=method)


@check("DET501", calls=("assertEqual",))
def exact_equality_in_test_case(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`self.assertEqual(ours, theirs)` of a test case out of sight, which takes after the one of unittest.

    Those of torch compare tensors within tolerances, as others do that are told one.
    """
    owner = ctx.module.index.class_at(call)
    if owner is None or not is_own(call.func) or len(call.args) < 2:
        return
    if not ctx.rule.triggers_by_name.keys().isdisjoint(ctx.callees(call)):
        return
    case = ctx.inference.class_info(owner)
    outside = ctx.inference.external_bases(case)
    cases = [base for base in outside if base.endswith(_TEST_CASE) and not base.startswith("torch.")]
    if cases and not is_set_for_case(case, ctx) and _differ(call.args[0], call.args[1], ctx):
        yield ctx.finding(call, what="assertEqual")


def _differ(left: ast.expr, right: ast.expr, ctx: Context, tensors: bool = False) -> bool:
    """Can two sides differ by rounding, as they are written or as a helper is given them?"""
    return _differ_here(left, right, ctx, tensors) or _differ_where_called(left, right, ctx, tensors)


def _differ_where_called(left: ast.expr, right: ast.expr, ctx: Context, tensors: bool) -> bool:
    """`assert_same(net(x), expected)`, a helper of the project that compares what it is given."""
    return any(
        _differ_here(first, second, site.inside, tensors) for first, second, site in given_to_compare(left, right, ctx)
    )


def _differ_here(left: ast.expr, right: ast.expr, ctx: Context, tensors: bool) -> bool:
    """Return whether two sides of a comparison, or what stands in them in one place, can differ by rounding."""
    return any(
        _is_written_down(one, other, ctx)
        or _is_written_down(other, one, ctx)
        or _differ_by_rounding(one, other, ctx, tensors)
        or adds_up_to_one(one, other, ctx)
        or adds_up_to_one(other, one, ctx)
        for one, other in _pairs(left, right, ctx)
    )


def _is_written_down(node: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`net(x).score == 0.9694293737411499`, `average(x, y) == (1.0 / 1.0 + 2.0 / 3.0) / 2.0` of tensors."""
    by_hand = is_worked_by_hand(ctx.module, node) and is_made_of_tensors(ctx.module, other)
    return (by_hand or is_written_result(ctx.module, node)) and is_given_by_call(ctx.module, other)


def _pairs(left: ast.expr, right: ast.expr, ctx: Context) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the sides, and the entries of displays: `losses` and each `x * 0.1` of `{"loss": x * 0.1}`.

    The sides of `(a - b).abs().max() == 0` are `a` and `b`.
    """
    yield left, right
    for size, zero in ((left, right), (right, left)):
        apart = difference(ctx.module, size) if ctx.constant(zero) == 0 else None
        if apart is not None:
            yield apart
    entries = [_entries(side, ctx) for side in (left, right)]
    if entries[0] and entries[1]:
        yield from ((value, entries[1][key]) for key, value in entries[0].items() if key in entries[1])
        return
    for entry in _computed_among(entries[0], ctx):
        yield entry, right
    for entry in _computed_among(entries[1], ctx):
        yield left, entry


def _computed_among(entries: dict[str, ast.expr], ctx: Context) -> Iterator[ast.expr]:
    """Yield what was computed of the entries of a display, and of displays in it: `[[x.std().item(), 0], [0, 1]]`."""
    for entry in entries.values():
        if isinstance(entry, (ast.List, ast.Tuple)):
            yield from _computed_among(_entries(entry, ctx), ctx)
        elif is_computed(ctx.module, entry):
            yield entry


def _entries(node: ast.expr, ctx: Context) -> dict[str, ast.expr]:
    """Return what a display holds, by key or position."""
    node = made_as(node, ctx) or node
    if isinstance(node, ast.Dict):
        return {ast.unparse(key): value for key, value in zip(node.keys, node.values, strict=True) if key is not None}
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    return {str(position): element for position, element in enumerate(elements)}


def _differ_by_rounding(left: ast.expr, right: ast.expr, ctx: Context, tensors: bool = False) -> bool:
    """Was one side computed, and the other one not taken from it? `tensors`: both sides can be nothing else."""
    if not _may_differ(left, right, ctx, tensors):
        return False
    return not is_handed_on(left, right, ctx) and not are_of_twins(left, right, ctx)


def _may_differ(left: ast.expr, right: ast.expr, ctx: Context, tensors: bool) -> bool:
    computed = [side for side in (left, right) if is_computed(ctx.module, side)]
    if not computed:
        sides = (left, right)
        results = tensors and any(
            all(kind(ctx.module, side) for side in sides) for kind in (is_result, is_of_operation)
        )
        results = results or _are_called_results(left, right, ctx) or are_trained_apart(left, right, ctx)
        return results and not is_repeated(left, right, ctx) and not keep_bits(left, right, ctx)
    if any(_is_plain(one, other, ctx) for one, other in ((left, right), (right, left)) if one not in computed):
        return False
    if are_rows_of_one(left, right, ctx) or (len(computed) == 2 and is_repeated(left, right, ctx)):
        return False
    if len(computed) == 1:
        other = right if computed[0] is left else left
        if any(is_one(other, computed[0], ctx) for is_one in _SAME_NUMBERS):
            return False
        given = _is_opaque(other, ctx) or (tensors and _is_expected(other, ctx))
        if not _is_value(other, ctx) and not (given and _is_fresh(computed[0], ctx)):
            return False
    return not keep_bits(left, right, ctx)


def _are_called_results(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Two scores, or one that was divided and what some call gave for the same."""
    named = [side for side in (left, right) if is_called_result(ctx.module, side)]
    if len(named) != 1:
        return len(named) == 2
    made = made_as(named[0], ctx)
    divided = isinstance(made, ast.BinOp) and any(isinstance(part, ast.Div) for part in ast.walk(made))
    return divided and _is_opaque(right if named[0] is left else left, ctx)


def _is_opaque(node: ast.expr, ctx: Context) -> bool:
    """Return whether nothing is known about a side but that some call gave it, or the object it is read from."""
    if (kept := kept_in(ctx.module, node)) is not None:
        return isinstance(written_out(ctx.module, kept), ast.Call)
    source = node.value if isinstance(node, ast.Attribute) else node
    if not isinstance(source, ast.Name) or any(value.kind is not Kind.UNKNOWN for value in ctx.values(node)):
        return False
    made = [
        made_here(ctx.module, binding) or whole_here(ctx.module, binding) for binding in ctx.module.definitions(source)
    ]
    return bool(made) and all(isinstance(value, ast.Call) for value in made)


def _is_expected(node: ast.expr, ctx: Context) -> bool:
    """Return whether a side is a parameter of a helper that by its name holds what is to come out.

    Those of tests are written out for them, mostly in simple numbers.
    """
    function = ctx.function(node)
    if not isinstance(node, ast.Name) or _EXPECTED.isdisjoint(node.id.split("_")):
        return False
    if function is None or function.name.startswith("test"):
        return False
    return {binding.kind for binding in ctx.module.definitions(node)} == {BindingKind.PARAMETER}


def _is_fresh(node: ast.expr, ctx: Context) -> bool:
    """Return whether a computed value is only compared: one that was handed on may come back as the other side."""
    if kept_in(ctx.module, node) is not None:
        text, function = ast.unparse(node), ctx.function(node)
        parts = (part for part in ast.walk(function or node) if isinstance(part, ast.Attribute))
        reads = (part for part in parts if isinstance(part.ctx, ast.Load) and part is not node)
        uses: list[ast.expr] = [part for part in reads if ast.unparse(part) == text]
    elif isinstance(node, ast.Name):
        uses = [use for binding in ctx.module.definitions(node) for use in ctx.flow(node).uses(binding)]
    else:
        return True
    return not any(isinstance(ctx.parent(use), (ast.Call, ast.keyword, ast.Assign)) for use in uses if use is not node)


def _is_plain(node: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Zero, infinities, whole numbers and simple fractions are results of masks and counts; sums may miss their 1.0."""
    value = ctx.constant(node)
    if is_meant_to_be_zero(other, ctx):
        return False
    if value is MISSING:
        made = [name for part in _behind(node, ctx) if isinstance(part, ast.Call) for name in ctx.resolve(part.func)]
        if _ONES.intersection(made[:1]) and _is_summed(other, ctx):
            return False
        return any(name in _PLAIN for name in made) or is_simple_by_hand(node, other, ctx)
    if value == 1 and not isinstance(value, bool):
        return not _is_summed(other, ctx) or (isinstance(value, int) and not is_of_shares(ctx.module, other))
    return not isinstance(value, float) or is_simple(value)


def _is_summed(node: ast.expr, ctx: Context) -> bool:
    """`probs.sum(-1)`, `share + rest` of computed parts, `(factor @ factor.T).diagonal()` are meant to be 1.0."""
    made = made_as(node, ctx) or node
    if any(isinstance(part, ast.BinOp) and is_product_with_itself(part) for part in _behind(node, ctx)):
        return True
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add):
        return all(is_computed(ctx.module, side) for side in (made.left, made.right))
    return any(isinstance(part, ast.Attribute) and part.attr in _TO_ONE for part in _behind(node, ctx))


def _behind(node: ast.expr, ctx: Context) -> Iterator[ast.AST]:
    """Every part of an expression, or of what a variable was set to."""
    if isinstance(node, ast.Name):
        for binding in after_start(ctx.module, ctx.module.definitions(node)):
            value = made_here(ctx.module, binding) or whole_here(ctx.module, binding)
            if value is not None:
                yield from ast.walk(value)
    else:
        yield from ast.walk(node)


def _is_value(node: ast.expr, ctx: Context) -> bool:
    """The other side: a float, a tensor or an array, as far as can be told."""
    constant = ctx.constant(node)
    if isinstance(constant, (int, float)) and not isinstance(constant, bool):
        return True
    values = ctx.values(node)
    if any(value.is_integral for value in values):
        return False
    if any(value.kind in (Kind.TENSOR, Kind.ARRAY) for value in values):
        return True
    if not all(value.kind is Kind.UNKNOWN for value in values):
        return False
    made = made_as(node, ctx) or node
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div):
        return True
    return isinstance(node, (ast.Subscript, ast.Call)) or _is_cut(made) or is_loaded(ctx.module, node)


def _is_cut(node: ast.expr) -> bool:
    """`outputs[name].detach().numpy()`: only tensors have such methods."""
    return isinstance(node, ast.Call) and identifier(node.func) in _OF_TENSORS_ALONE
