"""What branches settle about a name: inside `if mode == "reflect":` the mode is that, and after it, it is not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.conditions import condition_of
from detlint.linter.analysis.defaults import default_of
from detlint.linter.analysis.only_values import set_once
from detlint.linter.analysis.returned import returned_by
from detlint.linter.source.nodes import identifier, is_own, unless_none, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_AGREEING = (ast.Eq, ast.In, ast.Is)
_COMPARING = (*_AGREEING, ast.NotEq, ast.NotIn, ast.IsNot)
_MAX_STEPS = 3


def settled(node: ast.expr, ctx: Context) -> ast.Constant | None:
    """Return the literal that a name or attribute was compared with by a condition around it, in its function."""
    known = (literals[0] for literals, alike in _compared_with(node, ctx) if alike and len(literals) == 1)
    return next(known, None)


def ruled_out(node: ast.expr, ctx: Context) -> list[object]:
    """Return the literals that a name or attribute is not: `else` of `if mode == "reflect":`, or after its `return`."""
    return [literal.value for literals, alike in _compared_with(node, ctx) if not alike for literal in literals]


def conditions_met(node: ast.AST, ctx: Context) -> Iterator[tuple[ast.expr, bool]]:
    """Yield each condition around a node, and whether it holds there; what a flag was set to, where that asks one."""
    for test, holds in ctx.module.index.facts_around(node):
        yield from _parts(test, holds, ctx)


def is_settled(node: ast.AST, fact: Callable[[ast.expr, bool], bool], ctx: Context) -> bool:
    """Does a condition around a node come to a fact, whichever of its parts decide: one of an `and`, all of an `or`?

    `fact` is asked of a condition and whether it holds.
    """
    return any(_comes_to(fact, test, holds, ctx) for test, holds in ctx.module.index.facts_around(node))


def _comes_to(
    fact: Callable[[ast.expr, bool], bool], test: ast.expr, holds: bool, ctx: Context, steps: int = _MAX_STEPS
) -> bool:
    if fact(test, holds):
        return True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _comes_to(fact, test.operand, not holds, ctx, steps)
    if isinstance(test, ast.BoolOp):
        answers = (_comes_to(fact, part, holds, ctx, steps) for part in test.values)
        return any(answers) if isinstance(test.op, ast.And) is holds else all(answers)
    flag = _flag_behind(test, holds, ctx) if steps else None
    return flag is not None and _comes_to(fact, flag[0], holds, flag[1], steps - 1)


def exclude_each_other(first: ast.expr, then: ast.expr, ctx: Context) -> bool:
    """`given if whole else made` and then `if whole: …`: does a condition keep what was made from where it is used?

    One that is set anew on the way says nothing.
    """
    met = [(test, holds) for test, holds in conditions_met(first, ctx) if condition_of(test).text]
    return any(
        holds is not there and ast.unparse(test) == ast.unparse(asked) and _is_kept(test, asked, first, then, ctx)
        for asked, there in (conditions_met(then, ctx) if met else ())
        for test, holds in met
    )


def _is_kept(test: ast.expr, asked: ast.expr, first: ast.expr, then: ast.expr, ctx: Context) -> bool:
    """Does all that a condition names stay as it is from one place to another of the same function?"""
    flow, index = ctx.flow(first), ctx.module.index
    if ctx.flow(then) is not flow:
        return False
    names = [{part.id: part for part in walk(each) if isinstance(part, ast.Name)} for each in (test, asked)]
    bound = [binding.node for name in names[0].values() for binding in index.bindings_of(name)]
    bound += [change for part in walk(test) for change in index.attribute_changes.get(identifier(part), ())]
    alike = all(_is_same(names[0][name], names[1][name], ctx) for name in names[0])
    return alike and not any(flow.path(first, change) and flow.path(change, then) for change in bound)


def _compared_with(node: ast.expr, ctx: Context) -> Iterator[tuple[list[ast.Constant], bool]]:
    """Yield literals that a condition around a name or attribute lists, and whether it is one of them or none."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return
    same: list[ast.expr] = [node]
    if isinstance(node, ast.Attribute) and (stored := set_once(ctx.module, node)) is not None:
        same.append(stored)  # `p` of `self.p = p`, in a condition beside it
    for part, holds in conditions_met(node, ctx):
        if isinstance(part, ast.Compare) and any(_is_same(part.left, known, ctx) for known in same):
            found = compared(part)
            if found is not None:
                literals, alike = found
                yield literals, alike is holds


def _is_same(left: ast.expr, known: ast.expr, ctx: Context) -> bool:
    """Are two expressions written alike, and set by the same: another value between them is another matter."""
    if ast.unparse(left) != ast.unparse(known):
        return False
    if isinstance(left, ast.Name) and isinstance(known, ast.Name):
        return set(ctx.module.definitions(left)) == set(ctx.module.definitions(known))
    return is_own(left) or ctx.function(left) is ctx.function(known)


def _parts(test: ast.expr, holds: bool, ctx: Context, steps: int = _MAX_STEPS) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what follows from a condition: both sides of an `and` that holds, and of an `or` that does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not holds, ctx, steps)
    elif isinstance(test, ast.BoolOp):
        for part in test.values if isinstance(test.op, ast.And) is holds else ():
            yield from _parts(part, holds, ctx, steps)
    else:
        yield test, holds
        choice = _choice_behind(test, holds, ctx) if steps else None
        if choice is not None:
            yield from _parts(*choice, ctx, steps - 1)
        flag = _flag_behind(test, holds, ctx) if steps else None
        if flag is not None:
            yield from _parts(flag[0], holds, flag[1], steps - 1)


def _flag_behind(test: ast.expr, holds: bool, ctx: Context) -> tuple[ast.expr, Context] | None:
    """Return what a name or attribute was set to, or what a function of the project answers: `if self.infers():`."""
    if isinstance(test, (ast.Name, ast.Attribute)):
        flag = set_once(ctx.module, test)
        if holds:
            flag = unless_none(flag)
        return (flag, ctx) if flag is not None else None
    asked = isinstance(test, ast.Call) and (isinstance(test.func, ast.Name) or is_own(test.func))
    answers = returned_by(ctx.callees(test), ctx) if isinstance(test, ast.Call) and asked else None
    return answers[0] if answers is not None and len(answers) == 1 else None


def _choice_behind(test: ast.expr, holds: bool, ctx: Context) -> tuple[ast.expr, bool] | None:
    """Return the condition that decided, and how, where `corners = corners if mode != "nearest" else None` is asked.

    That is what `corners is None` asks, in a place where it holds or does not.
    """
    found = compared(test) if isinstance(test, ast.Compare) else None
    made = set_once(ctx.module, test.left) if isinstance(test, ast.Compare) and found is not None else None
    if found is None or not isinstance(made, ast.IfExp) or [literal.value for literal in found[0]] != [None]:
        return None
    branches = [isinstance(part, ast.Constant) and part.value is None for part in (made.body, made.orelse)]
    if branches.count(True) != 1:
        return None
    absent = found[1] is holds
    if absent and not _is_there_by_default(made.orelse if branches[0] else made.body, ctx):
        return None
    return made.test, branches[0] is absent


def _is_there_by_default(node: ast.expr, ctx: Context) -> bool:
    """Is a value another one than None, unless a caller says otherwise?"""
    made = [default_of(value) or value.node for value in ctx.values(node)]
    return bool(made) and all(isinstance(part, ast.Constant) and part.value is not None for part in made)


def compared(test: ast.Compare) -> tuple[list[ast.Constant], bool] | None:
    """`mode == "reflect"`, `mode not in ("reflect", "replicate")`: with what, and whether it is to be one of them."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], _COMPARING):
        return None
    other = test.comparators[0]
    listed = other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other]
    literals = [part for part in listed if isinstance(part, ast.Constant)]
    several = isinstance(test.ops[0], (ast.In, ast.NotIn))
    if len(literals) != len(listed) or several is (listed == [other]):
        return None
    return literals, isinstance(test.ops[0], _AGREEING)
