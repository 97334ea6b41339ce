"""What do callers of a helper give it to compare: `assert_same(net(x), expected)`?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.made_by_callers import left_over
from detlint.linter.numbers.insisting import is_meant_to_differ
from detlint.linter.source.names import BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

# Calls of a helper that are looked at.
_MOST_CALLS = 20


@dataclass(frozen=True, slots=True)
class Site:
    """A call of a helper, and where it stands."""

    function: FunctionNode
    call: ast.Call
    inside: Context

    def given(self, parameter: ast.expr) -> ast.expr | None:
        """Return what the call passes for a parameter of the helper."""
        if not isinstance(parameter, ast.Name):
            return None
        method = isinstance(self.call.func, ast.Attribute)
        return argument_of(self.function, parameter.id, self.call, skip_self=method)

    def told(self, call: Call) -> Call:
        """Return a call inside of the helper with the numbers that come with its `**options`: `rtol=1e-3`."""
        written, options = call.written or call.node, self.function.args.kwarg
        gathered = [each for each in call.node.keywords if each.arg is None and _is_named(each.value, options)]
        rest = left_over(self.call, self.function, self.call.func).keywords
        if not gathered or any(each.arg is None for each in rest):
            return call
        numbers = {each.arg: self.inside.constant(each.value) for each in rest}
        own = [each for each in written.keywords if each not in gathered and each.arg not in numbers]
        told = [
            ast.keyword(name, ast.Constant(each)) for name, each in numbers.items() if isinstance(each, (int, float))
        ]
        return replace(call, written=ast.Call(written.func, written.args, own + told), passed=None)


def _is_named(value: ast.expr, parameter: ast.arg | None) -> bool:
    return parameter is not None and identifier(value) == parameter.arg


def given_to_compare(left: ast.expr, right: ast.expr, ctx: Context) -> Iterator[tuple[ast.expr, ast.expr, Site]]:
    """Yield the two sides as each caller gives them, where they are parameters of the helper that compares them.

    Or one of them is, and the other one a number: `assert total == 1.0`.
    """
    function = ctx.function(left)
    sides = [unviewed(side) if isinstance(unviewed(side), ast.Name) else side for side in (left, right)]
    given = [side for side in sides if not isinstance(side, ast.Constant)]
    kinds = {kind for side in given for kind in _kinds(side, ctx)}
    if function is None or kinds != {BindingKind.PARAMETER}:
        return
    qualified = ctx.module.qualified(function)
    for found in islice(calls_of(function, ctx), _MOST_CALLS):
        if found is None:
            continue
        inside, call = found
        if is_meant_to_differ(call, inside) or (inside is not ctx and qualified not in inside.callees(call)):
            continue
        site = Site(function, call, inside)
        first, second = (side if isinstance(side, ast.Constant) else site.given(side) for side in sides)
        if first is not None and second is not None:
            yield first, second, site


def _kinds(side: ast.expr, ctx: Context) -> list[BindingKind | None]:
    """Return how a name came by its value, [None] of any other expression."""
    found = ctx.module.definitions(side) if isinstance(side, ast.Name) else ()
    return [binding.kind for binding in found] or [None]


def unviewed(side: ast.expr) -> ast.expr:
    """Return `output` of `output.detach().cpu()`."""
    views = rounding_table().keeping
    while isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr in views:
        side = side.func.value
    return side
