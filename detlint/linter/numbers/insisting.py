"""Does code insist on how a comparison ends? In an assert, over all elements, or by refusing what differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Context
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

_OVER_ALL = frozenset({"torch.all", "numpy.all", "builtins.all"})
_OVER_ANY = frozenset({"torch.any", "numpy.any", "builtins.any"})
# These tell how many of what they are given are not zero, or which.
_COUNTED = frozenset(
    {
        "torch.count_nonzero",
        "torch.nonzero",
        "numpy.argwhere",
        "numpy.count_nonzero",
        "numpy.flatnonzero",
        "numpy.nonzero",
    }
)
_SUMS = frozenset({"torch.sum", "numpy.sum", "builtins.sum"})
_LENGTHS = ("numel", "size")
_STEPS = 2  # of functions that hand on what one of them says
_SAME_TRUTH = ("builtins.bool", "builtins.int")
# What is printed where two sides should have been the same.
_COMPLAINS = re.compile(r"differ|mismatch|not (the )?(equal|same|match)|n't match|fail|error|wrong", re.I)
_WARNING = frozenset({"warn", "warning", "error", "critical"})
_VERDICTS = frozenset({"ok", "passed", "passes", "pass", "success", "valid", "correct", "good"})
# Functions whose result is a verdict, whatever callers do with it: `check_parity`, `verify_outputs`.
_VERIFIES = re.compile(r"(^|_)(check|verify|validate)_|(^|_)(match|matches|parity|consistent|consistency)(_|$)")
# How functions that compare are given what they say where that fails.
_MESSAGES = ("msg", "err_msg")
_HANDED_ON = ("item", "tolist", "numpy", "cpu")


def is_meant_to_differ(node: ast.expr, ctx: Context) -> bool:
    """`assert not torch.equal(a, b)`, `self.assertFalse(torch.equal(a, b))`.

    Whoever returns False there only asks, and another one decides what becomes of it.
    """
    parent = ctx.parent(node)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.attr == "assertFalse"
    if isinstance(parent, ast.Assign) and (uses := _uses(node, ctx)):
        return all(is_meant_to_differ(use, ctx) for use in uses)
    return isinstance(parent, ast.UnaryOp) and not _is_refused(parent, ctx)


def insists(equality: ast.expr, ctx: Context) -> bool:
    """Does something fail unless a test holds: `assert torch.equal(a, b)`, `if not torch.equal(a, b): raise`?"""
    if is_asserted(equality, ctx):
        return True
    tests = [equality, *_uses(equality, ctx)]
    denials = [around for test in tests if isinstance(around := ctx.parent(test), ast.UnaryOp)]
    return any(isinstance(denial.op, ast.Not) and _is_refused(denial, ctx) for denial in denials)


def insists_on_equality(compare: ast.Compare, ctx: Context) -> bool:
    """`==` in an assert, of all elements where it is tensors that are compared, `!=` that is refused."""
    if isinstance(compare.ops[0], ast.NotEq):
        return _refuses(_over_any(compare, ctx, counted=True), ctx)
    return insists(compare, ctx) or is_over_all(compare, ctx)


def insists_on_bound(compare: ast.Compare, ctx: Context) -> bool:
    """`assert error < 1e-9`, `if error > 1e-9: raise …`."""
    if isinstance(compare.ops[0], (ast.Gt, ast.GtE)):
        return _refuses(compare, ctx)
    return is_asserted(compare, ctx)


def is_asserted(compare: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """`assert a == b`, `self.assertTrue(a == b and c)`, and `same = a == b` before either.

    So `return a == b` of a function whose calls are, or that is named after what it checks.
    """
    parent = ctx.parent(compare)
    while _holds(parent, compare):
        compare, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.Return):
        function = ctx.function(parent)
        if function is not None and _VERIFIES.search(function.name):
            return True
        sites = calls_of(function, ctx) if function is not None and steps else ()
        return any(site is not None and is_asserted(site[1], site[0], steps - 1) for site in sites)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.attr == "assertTrue" and compare in parent.args
    return isinstance(parent, ast.Assert) or any(is_asserted(use, ctx, steps) for use in _uses(compare, ctx))


def _holds(around: ast.AST | None, test: ast.expr) -> TypeGuard[ast.expr]:
    """`test and other`, `test if fast else other`."""
    if isinstance(around, ast.BoolOp):
        return isinstance(around.op, ast.And)
    return isinstance(around, ast.IfExp) and around.test is not test


def is_over_all(compare: ast.expr, ctx: Context) -> bool:
    """`assert (a == b).all()`, `assert torch.all(a == b)`, and `hits = a == b` before either."""
    whole = _over_all(compare, ctx)
    if whole is not compare:
        return insists(whole, ctx)
    return any(is_over_all(use, ctx) for use in _uses(compare, ctx))


def refuses_any(difference: ast.expr, ctx: Context, *, counted: bool = False) -> bool:
    """`assert not (a - b).any()`, `if np.count_nonzero(a - b): raise …` of `a - b`; `counted`, see `_over_any`."""
    whole = _over_any(difference, ctx, counted=counted)
    return whole is not difference and _refuses(whole, ctx)


def _over_all(node: ast.expr, ctx: Context) -> ast.expr:
    """Return `(a == b).all().item()` around `a == b`."""
    return _reduced(node, "all", _OVER_ALL, ctx)


def _over_any(node: ast.expr, ctx: Context, *, counted: bool = False) -> ast.expr:
    """Return `(a != b).any()`, and where the sum of what holds is `counted`, `int((a != b).sum())`, around `a != b`."""
    ways = {"any": _OVER_ANY, "count_nonzero": _COUNTED, "nonzero": _COUNTED, **({"sum": _SUMS} if counted else {})}
    reduced = (_reduced(node, method, functions, ctx) for method, functions in ways.items())
    return next((whole for whole in reduced if whole is not node), node)


def _reduced(node: ast.expr, method: str, functions: frozenset[str], ctx: Context) -> ast.expr:
    """Return what a comparison is reduced to, or itself."""
    around = _called(node, method, functions, ctx)
    while around is not None:
        node = around
        around = next((more for name in _HANDED_ON if (more := _called(node, name, frozenset(_SAME_TRUTH), ctx))), None)
    return node


def _called(node: ast.expr, method: str, functions: frozenset[str], ctx: Context) -> ast.Call | None:
    """Return `node.method()` or `function(node)` around an expression."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.GeneratorExp) and parent.elt is node:
        node, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.Attribute) and parent.attr == method:
        around = ctx.parent(parent)
        return around if isinstance(around, ast.Call) and around.func is parent else None
    if isinstance(parent, ast.Call) and node in parent.args and functions.intersection(ctx.resolve(parent.func)):
        return parent
    return None


def _refuses(difference: ast.expr, ctx: Context) -> bool:
    """`if a != b: raise …`, `assert not (a != b).any()`, `self.assertFalse((a != b).any())`, `if n > 0: raise …`."""
    parent = ctx.parent(difference)
    if isinstance(parent, ast.Attribute) and parent.attr in _LENGTHS:
        return _refuses(_called(difference, parent.attr, frozenset(), ctx) or parent, ctx)
    if isinstance(parent, ast.Compare) and _asks_for_more_than_none(parent, difference):
        difference, parent = parent, ctx.parent(parent)
    while isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.Or):
        difference, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
        return is_asserted(parent, ctx)
    if isinstance(parent, ast.Call):
        return identifier(parent.func) == "assertFalse"
    return _is_raised_upon(difference, ctx) or any(_refuses(use, ctx) for use in _uses(difference, ctx))


def _asks_for_more_than_none(compare: ast.Compare, number: ast.expr) -> bool:
    """`n > 0`, `n != 0`, `n >= 1`."""
    asked = (type(compare.ops[0]), getattr(compare.comparators[0], "value", None))
    return compare.left is number and len(compare.ops) == 1 and asked in ((ast.Gt, 0), (ast.NotEq, 0), (ast.GtE, 1))


def _is_refused(denial: ast.UnaryOp, ctx: Context) -> bool:
    """`if not torch.equal(a, b): raise ValueError(…)` insists on equality, and so does a warning there."""
    return _is_raised_upon(denial, ctx) or _is_warned_of(denial, ctx) or _is_failure(denial, ctx)


def _is_failure(test: ast.expr, ctx: Context) -> bool:
    """`if not torch.equal(a, b): all_ok = False`, a verdict that is given later."""
    return any(
        isinstance(step, ast.Assign)
        and isinstance(step.value, ast.Constant)
        and step.value.value is False
        and any(not _VERDICTS.isdisjoint(identifier(target).lower().split("_")) for target in step.targets)
        for step in _steps_upon(test, ctx)
    )


def _is_warned_of(test: ast.expr, ctx: Context) -> bool:
    """`if not torch.equal(a, b): warnings.warn("outputs differ")`, or `print("outputs differ")`."""
    steps = _steps_upon(test, ctx)
    calls = [step.value for step in steps if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call)]
    if any(identifier(call.func) in _WARNING and isinstance(call.func, ast.Attribute) for call in calls):
        return True
    printed = (part for call in calls if getattr(call.func, "id", "") == "print" for part in walk(call))
    return any(isinstance(part, ast.Constant) and _COMPLAINS.search(str(part.value)) for part in printed)


def _is_raised_upon(test: ast.expr, ctx: Context) -> bool:
    return any(isinstance(last, ast.Raise) for last in _steps_upon(test, ctx)[-1:])


def _steps_upon(test: ast.expr, ctx: Context) -> list[ast.stmt]:
    """Return what an `if` does where its whole test holds."""
    around = ctx.parent(test)
    return around.body if isinstance(around, ast.If) and around.test is test else []


def is_answer(node: ast.expr, ctx: Context) -> bool:
    """`if not torch.allclose(a, b): return False`."""
    denial = ctx.parent(node)
    around = ctx.parent(denial) if isinstance(denial, ast.UnaryOp) else None
    end = around.body[-1] if isinstance(around, ast.If) and around.test is denial else None
    return isinstance(end, ast.Return) and isinstance(end.value, ast.Constant) and end.value.value is False


def _uses(compare: ast.expr, ctx: Context) -> tuple[ast.Name, ...]:
    """Return what reads, further down, what a comparison is put in: no `same` of `same = same and a == b`."""
    kinds = (ast.Compare, ast.Call, ast.BoolOp, ast.IfExp)
    binding = ctx.binding(compare) if isinstance(compare, kinds) else None
    uses = ctx.flow(compare).uses(binding) if binding is not None else ()
    return tuple(use for use in uses if use.lineno > (compare.end_lineno or compare.lineno))


def is_said(node: ast.expr, ctx: Context) -> bool:
    """`def test_outputs_are_identical():`, `if is_deterministic:` around a comparison, or its message."""
    table, function, inner = rounding_table(), ctx.function(node), ctx.statement(node)
    message = " ".join(_message_of(inner)).lower()
    if any(word in message for word in table.exact_messages):
        return True
    for around in ctx.ancestors(inner):
        if isinstance(around, ast.If) and inner in around.body:
            asked = [identifier(part) for part in ast.walk(around.test)]
            if any(word in name for word in table.exact_flags for name in asked):
                return True
        if around is function or not isinstance(around, ast.stmt):
            break
        inner = around
    parts = function.name.split("_") if function is not None else []
    said = "_".join(part for part in parts if part == part.lower())  # others name a class under test
    return any(word in said for word in table.exact_words)


def _message_of(comparison: ast.stmt) -> Iterator[str]:
    """Yield the texts of what `assert same, "not deterministic"` says, and of `self.assertEqual(a, b, msg="…")`."""
    said = [comparison.msg] if isinstance(comparison, ast.Assert) and comparison.msg is not None else []
    call = comparison.value if isinstance(comparison, ast.Expr) else None
    if isinstance(call, ast.Call):
        said = [*call.args[2:3], *(named.value for named in call.keywords if named.arg in _MESSAGES)]
    for part in (part for text in said for part in walk(text)):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
