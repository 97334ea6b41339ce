"""Does the project take up an order that an object keeps? Follows it to all who read an attribute, or an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of, reads_of_attributes, results_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.order.callers import is_given_in_vain
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import CHOICE, Filled, GivenBack, KeptIn
from detlint.linter.order.meant import is_of_another_class, versions

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_STEPS = 4  # attributes and arguments that an order is handed on by
_Places = frozenset[tuple[object, str]]  # that are being asked about


def is_taken_up(sink: str | None, ctx: Context, asked: _Places = frozenset()) -> bool:
    """Return whether an order ends in something that depends on it.

    What a function gives is there for whoever calls. What is only kept in an attribute, or in what the caller has
    handed in, has to be read by code that takes up the order, and in sight.
    """
    if isinstance(sink, GivenBack):
        kept = sink.kept or bool(asked)
        return not (kept and _is_called_nowhere(sink, ctx)) and not is_given_in_vain(sink, ctx)
    if not isinstance(sink, (KeptIn, Filled)):
        return sink is not None
    place: tuple[object, str]
    place = (sink.module.index.class_at(sink.target), str(sink)) if isinstance(sink, KeptIn) else (sink.function, sink)
    if place in asked or len(asked) >= _MOST_STEPS:
        return False
    reached = _reached_by_readers(sink, ctx) if isinstance(sink, KeptIn) else _reached_by_callers(sink, ctx)
    return any(is_taken_up(found, ctx, asked | {place}) for found in reached)


def _is_called_nowhere(given: GivenBack, ctx: Context) -> bool:
    """Is it a method that hands out what the object keeps, to nobody in sight? A base class elsewhere may call it."""
    asked = versions(given)
    sites = (site for module, function in asked for site in results_of(function, ctx.elsewhere(module)))
    unseen = all(site is not None and is_test_file(site[0].module) for site in sites)
    return unseen and bool(asked or given.function.name.startswith("__"))


def _reached_by_readers(kept: KeptIn, ctx: Context) -> Iterator[str | None]:
    """Yield where the order goes on wherever the project reads the attribute; one that all read serves anything."""
    home, owner = ctx.elsewhere(kept.module), kept.module.index.class_at(kept.target)
    if owner is None:
        return
    for read in reads_of_attributes(kept.target.attr, home):
        if read is None:
            yield kept.target.attr
            return
        where, use = read
        if not is_test_file(where.module) and not is_of_another_class(use, where, owner, home):
            yield _chosen_at(use, where) if kept.trail.partial else None
            yield OrderTracer(where.module).destination(use, kept.trail)


def _chosen_at(use: ast.expr, ctx: Context) -> str | None:
    """`for net in self.nets`, of which there are the first few that were found: it is done to those alone."""
    parent = ctx.parent(use)
    return CHOICE if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is use else None


def _reached_by_callers(filled: Filled, ctx: Context) -> Iterator[str | None]:
    """Yield where the order goes on in each caller, who has handed in what the function fills."""
    sites = calls_of(filled.function, ctx.elsewhere(filled.module)) if filled.function is not None else ()
    for site in sites:
        if site is None or filled.function is None or is_test_file(site[0].module):
            continue
        where, call = site
        given = argument_of(filled.function, filled.parameter, call, skip_self=True)
        if given is not None:
            yield OrderTracer(where.module).filled_by(given, filled.key, call, filled.trail)
