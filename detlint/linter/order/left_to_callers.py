"""Does an order count only where a caller takes it over? What is given one by one, or beside other things, says less.

A list that a function returns has its order, for whoever calls. A generator is gone through like the listing itself,
and what stands in a record or a tuple is there with other things: that its order matters must be shown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import results_of
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.values import Kind
from detlint.linter.order.callers import is_given_in_vain
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import Form, GivenBack, Trail
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.tables.order import listings

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_FUNCTIONS = 3  # that hand an order on
_PATHS = frozenset({"pathlib.Path", "os.path.join"})
_NAMES = frozenset({"name", "path"})  # of an entry of os.scandir


def is_left_to_callers(sink: str, ctx: Context, trail: Trail, steps: int = _MOST_FUNCTIONS) -> bool:
    """Return whether an order ends in what a function gives that way, and no caller in the project takes it over.

    Where nobody calls it, others may; to them a generator of paths is a listing, of which they know that.
    """
    if not isinstance(sink, GivenBack):
        return False
    gives = [*_given_one_by_one(sink.function)]
    if steps == _MOST_FUNCTIONS and not (gives or sink.nested or sink.places):
        return False
    results = list(_results(sink, ctx))
    if not results:
        there = ctx.elsewhere(sink.module)
        return any(_is_entry(node, there) for node in gives)
    return not any(_takes_over(given, where, sink, trail, steps) for where, given in results)


def _results(sink: GivenBack, ctx: Context) -> Iterator[tuple[Context, ast.expr]]:
    """Yield what the project calls a function in: not its tests, nor the function itself."""
    for result in results_of(sink.function, ctx.elsewhere(sink.module)):
        if result is None:
            continue
        where, given = result
        tests = is_test_file(where.module) and not is_test_file(sink.module)
        if not tests and sink.function not in where.ancestors(given):
            yield result


def _takes_over(given: ast.expr, where: Context, sink: GivenBack, trail: Trail, steps: int) -> bool:
    found = (OrderTracer(where.module).destination(given, each) for each in _trails(sink, trail))
    return steps > 0 and any(
        taken is not None
        and not is_given_in_vain(taken, where)
        and not is_left_to_callers(taken, where, trail, steps - 1)
        for taken in found
    )


def _trails(sink: GivenBack, trail: Trail) -> Iterator[Trail]:
    """Yield how an order is carried to who calls."""
    if sink.trail is not None:
        yield replace(sink.trail, calls=0, entered=())
    elif sink.places:
        yield from (replace(trail, form=Form.NESTED, place=place) for place in sorted(sink.places, key=str))
    else:
        yield replace(trail, form=Form.NESTED if sink.nested else Form.SEQUENCE)


def _given_one_by_one(function: FunctionNode) -> Iterator[ast.Yield | ast.YieldFrom]:
    """Yield what makes a function a generator, those inside it left out."""
    pending: list[ast.AST] = [*function.body]
    for node in pending:  # grows on the way
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def _is_entry(given: ast.Yield | ast.YieldFrom, ctx: Context) -> bool:
    """`yield from os.walk(top)`, `yield os.path.join(folder, name)`, `yield entry.name`: a path, and nothing read."""
    value = given.value
    if isinstance(given, ast.YieldFrom):
        return isinstance(value, ast.Call) and not listings().isdisjoint(ctx.callees(value))
    if value is None or (isinstance(value, ast.Attribute) and value.attr in _NAMES):
        return value is not None
    return any(held.kind is Kind.STRING or held.type in _PATHS for held in ctx.values(value))
