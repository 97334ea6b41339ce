"""Where need fresh memory not be written? Where there is none, where nobody wants it, where rounds came before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from detlint.linter.analysis.context import Context
from detlint.linter.memory.padding import sizes_of
from detlint.linter.source.names import FOR_LOOPS, LOOPS
from detlint.linter.source.nodes import identifier, walk

# What tells how much there is, and that there is nothing.
_SIZES = re.compile(r"^(numel|shape|size|len|prod|nelement)$")
_FORMS = re.compile(r"^(numel|nelement|shape|size|dim|ndim)$")
_NOTHING = re.compile(r"(^|_)(no|empty)(_|$)")


def guards_emptiness(target: ast.AST, ctx: Context) -> bool:
    """`if len(boxes) == 0: boxes = x.new_empty(shape)`, `if has_no_edges(n): return out`: there is nothing to read."""
    child = target
    for parent in ctx.ancestors(target):
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            holds = child in parent.body if isinstance(parent, ast.If) else child is parent.body
            test, holds = _turned(parent.test, holds)
            if not holds and _names_size(test):
                return True
            if any(_says_nothing(part, holds, ctx) for part in ast.walk(test)):
                return True
        child = parent
    return False


def _turned(test: ast.expr, holds: bool) -> tuple[ast.expr, bool]:
    """Return `n > 0` that does not hold, for `not n > 0` that does."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Compare):
        return test.operand, not holds
    return test, holds


def _names_size(test: ast.expr) -> bool:
    """`boxes.size`, `x.numel()`, `len(rows)`."""
    return _SIZES.search(identifier(test.func if isinstance(test, ast.Call) else test)) is not None


def _says_nothing(test: ast.AST, holds: bool, ctx: Context) -> bool:
    """Is there nothing where a part of a condition holds, `n == 0`, `not x.numel()`, or does not: `n > 0`?"""
    if isinstance(test, ast.Compare):
        kind = type(test.ops[0])
        limit = ctx.constant(test.comparators[0])
        nothing = (limit == 0 and kind in (ast.Eq, ast.LtE)) or (limit == 1 and kind is ast.Lt)
        something = (limit == 0 and kind in (ast.NotEq, ast.Gt)) or (limit == 1 and kind is ast.GtE)
        return len(test.ops) == 1 and (nothing if holds else something)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return holds and _is_size_test(test.operand, ctx)
    return _NOTHING.search(identifier(test)) is not None


def has_nothing_here(use: ast.AST, made: ast.expr, ctx: Context) -> bool:
    """`if not rows or not columns: return out` of `out = torch.empty(len(rows), len(columns))`: it has no elements."""
    counted = (size for size in sizes_of(made, ctx) if isinstance(size, ast.Call) and len(size.args) == 1)
    lengths = {ast.unparse(size.args[0]) for size in counted if "builtins.len" in ctx.callees(size)}
    return any(_is_none_of(test, holds, lengths) for test, holds in ctx.module.index.branches_around(use))


def _is_none_of(test: ast.expr, holds: bool, lists: set[str]) -> bool:
    """Is one of some lists known to be empty where a condition holds, or does not?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_none_of(test.operand, not holds, lists)
    if isinstance(test, ast.BoolOp):
        # All of its parts hold, or none does; or nobody knows which.
        settled = any if isinstance(test.op, ast.And) is holds else all
        return settled(_is_none_of(part, holds, lists) for part in test.values)
    return not holds and ast.unparse(test) in lists


def is_asked_for_form(use: ast.Name, made: ast.expr, ctx: Context) -> bool:
    """`out + x if out.size() else x` of `out = torch.empty([])`: its form tells a placeholder from a sum."""
    sizes = made.args[:1] if isinstance(made, ast.Call) else []
    if not any(isinstance(given, (ast.List, ast.Tuple)) and not given.elts for given in sizes):
        return False
    child: ast.AST = use
    for parent in ctx.ancestors(use):
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test and _asks_form_of(use.id, parent.test):
            return True
        child = parent
    return False


def _asks_form_of(name: str, test: ast.expr) -> bool:
    """`out.size()`, `out.ndim > 0`, `len(out)`."""
    for part in walk(test):
        asked: ast.expr | None = None
        if isinstance(part, ast.Attribute) and _FORMS.search(part.attr):
            asked = part.value
        elif isinstance(part, ast.Call) and identifier(part.func) == "len":
            asked = next(iter(part.args), None)
        if isinstance(asked, ast.Name) and asked.id == name:
            return True
    return False


def tests_of_need(
    writes: list[ast.Name], read: ast.AST, target: ast.Name, made: ast.expr, ctx: Context
) -> Iterator[ast.AST]:
    """Yield the `if out.numel():` around writes: where it is not so, there is nothing to write.

    Nor is there where memory is made on the same condition, `out = torch.empty(n) if wanted else None`, or may be None.
    Where it is made in one of two branches, `else: out = torch.empty(n)`, the condition of a write may go with that.
    """
    around = set(ctx.ancestors(read))
    in_branch = any(
        isinstance(parent, ast.If) and parent not in around and _is_bound_in_both(target, parent)
        for parent in ctx.ancestors(target)
    )
    wanted = {target.id}.union(
        *(_identifiers(parent.test) for parent in ctx.ancestors(made) if isinstance(parent, (ast.If, ast.IfExp)))
    )
    for write in writes:
        for parent in ctx.ancestors(write):
            test = parent.test if isinstance(parent, ast.If) and parent not in around else None
            if test is not None and (
                in_branch or _is_size_test(test, ctx) or _is_size_of(test, made) or _identifiers(test) & wanted
            ):
                yield parent


def _is_bound_in_both(target: ast.Name, branches: ast.If) -> bool:
    """`if first: out = choose() else: out = torch.empty(n)`."""
    return _binds(branches.body, target.id) and _binds(branches.orelse, target.id)


def _binds(branch: list[ast.stmt], name: str) -> bool:
    parts = (part for step in branch for part in walk(step))
    return any(isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store) for part in parts)


def _is_size_of(test: ast.expr, made: ast.expr) -> bool:
    """`if rows > 0` of `torch.empty(rows, 4)`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Gt, ast.NotEq)):
        return False
    size = ast.unparse(test.left)
    return any(isinstance(part, ast.expr) and ast.unparse(part) == size for part in ast.walk(made))


def reads_what_rounds_left(use: ast.AST, writes: Sequence[ast.AST], made: ast.AST, ctx: Context) -> bool:
    """`if i == 0: … else: y = x * last` in a loop that sets `last`: the first round does not come there.

    A condition that the memory is `made` on tells no round from another.
    """
    tests: list[ast.expr] = []
    given = set(ctx.module.index.branches_around(made))
    branches = dict(ctx.module.index.branches_around(use))
    for parent in ctx.ancestors(use):
        if isinstance(parent, ast.If) and (parent.test, branches.get(parent.test)) not in given:
            tests.append(parent.test)
        elif isinstance(parent, LOOPS) and any(parent in ctx.ancestors(write) for write in writes):
            counters = (
                {identifier(part) for part in ast.walk(parent.target)} if isinstance(parent, FOR_LOOPS) else set()
            )
            return any(
                isinstance(part, ast.Name) and (part.id in counters or "first" in part.id)
                for test in tests
                for part in ast.walk(test)
            )
    return False


def is_in_each_round(node: ast.AST, ctx: Context) -> bool:
    """Return whether a statement stands in the body of a loop itself, under no condition of its own."""
    return isinstance(ctx.parent(ctx.statement(node)), LOOPS)


def _is_size_test(test: ast.expr, ctx: Context) -> bool:
    """`x.numel()`, `len(rows) > 0`, `batch * cells`, and `total` after `total = x.shape[0] * k`."""
    if isinstance(test, ast.BinOp):
        return True
    if isinstance(test, ast.Compare):
        beside = test.comparators[0]
        if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.NotEq)) or ctx.constant(beside) != 0:
            return False
        test = test.left
    made = [binding.value for binding in ctx.module.definitions(test)] if isinstance(test, ast.Name) else [test]
    return bool(made) and all(
        value is not None and any(_SIZES.search(identifier(part)) for part in ast.walk(value)) for value in made
    )


def _identifiers(node: ast.expr) -> set[str]:
    return {name for part in ast.walk(node) if (name := identifier(part))} - {"self"}
