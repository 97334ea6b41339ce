"""Does a function leave it to its callers to fill the memory that it gives, or a part of it?

It fills it where callers ask for that, and none of the others reads it; or all callers write what it left out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.memory.attribute_fates import fate_under_names
from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.names import Binding, BindingKind
from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.linter.analysis.context import Context

# What a caller does that leaves filling to itself, or to what it hands the memory to.
_FILLS = frozenset({Fate.WRITTEN, Fate.UNTOUCHED})

_MOST_CALLS = 2


def is_filled_on_request(returned: ast.expr, writes: Sequence[ast.expr], ctx: Context) -> bool:
    """`if copy: out.copy_(x)` before `return out`, where each caller that leaves `copy` off has the memory filled."""
    function = ctx.function(returned)
    flags = {_flag(write, ctx) for write in writes}
    flag = flags.pop() if len(flags) == 1 else None
    if function is None or flag is None:
        return False
    sites = list(calls_of(function, ctx))
    return bool(sites) and all(
        site is not None
        and (
            site[0].truth(argument_of(function, flag, site[1], skip_self=True)) is Truth.YES
            or fate_under_names(site[1], site[0])[0] in _FILLS
        )
        for site in sites
    )


def is_completed_by_callers(returned: ast.expr, ctx: Context, calls: int = _MOST_CALLS) -> bool:
    """`return out, keys` after a part of `out` was written, where each caller goes on: `out[..., n:] = keys`.

    A caller may hand it on to its own callers.
    """
    function = ctx.function(returned)
    place = _place_in_result(returned, ctx)
    if function is None or place is None or calls == 0:
        return False
    sites = list(calls_of(function, ctx))
    return bool(sites) and all(
        site is not None and _is_completed(_bound_to_part(site[1], place, site[0]), site[0], calls - 1)
        for site in sites
    )


def _place_in_result(returned: ast.expr, ctx: Context) -> tuple[int, ...] | None:
    """Return where a name stands in a result: `(0,)` for `out` of `return out, keys`, `()` where it is alone."""
    parent = ctx.parent(returned)
    if isinstance(parent, ast.Return):
        return ()
    together = isinstance(parent, ast.Tuple) and isinstance(ctx.parent(parent), ast.Return)
    return (parent.elts.index(returned),) if isinstance(parent, ast.Tuple) and together else None


def _bound_to_part(call: ast.Call, place: tuple[int, ...], ctx: Context) -> Binding | None:
    """Return the variable that a caller puts it in: `out` of `out, keys = project(x)`."""
    statement = ctx.parent(call)
    names = (
        [part for part in walk(statement) if isinstance(part, ast.Name)] if isinstance(statement, ast.Assign) else []
    )
    bound = (each for name in names for each in ctx.module.index.bindings_of(name) if each.node is name)
    return next((each for each in bound if each.value is call and each.index == place), None)


def _is_completed(binding: Binding | None, ctx: Context, calls: int) -> bool:
    uses = ctx.flow(binding.node).uses(binding) if binding is not None else ()
    written = any(
        isinstance(part := ctx.parent(use), ast.Subscript) and part.value is use and isinstance(part.ctx, ast.Store)
        for use in uses
    )
    return written or any(
        fate(use, ctx)[0] is Fate.RETURNED and is_completed_by_callers(use, ctx, calls) for use in uses
    )


def _flag(write: ast.expr, ctx: Context) -> str | None:
    """Return the parameter that alone decides whether memory is written: `copy` of `if copy: out.copy_(x)`."""
    tests = [test for test, holds in ctx.module.index.branches_around(write) if holds]
    test = tests[0] if len(tests) == 1 else None
    bindings = ctx.module.definitions(test) if isinstance(test, ast.Name) else ()
    given = len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER
    return test.id if isinstance(test, ast.Name) and given else None
