"""Does a function fill the memory that it gives only where callers ask for that, and none of the others reads it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.memory.attribute_fates import fate_under_names
from detlint.linter.memory.uses import Fate
from detlint.linter.source.names import BindingKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.linter.analysis.context import Context

# What a caller does that leaves filling to itself, or to what it hands the memory to.
_FILLS = frozenset({Fate.WRITTEN, Fate.UNTOUCHED})


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


def _flag(write: ast.expr, ctx: Context) -> str | None:
    """Return the parameter that alone decides whether memory is written: `copy` of `if copy: out.copy_(x)`."""
    tests = [test for test, holds in ctx.module.index.branches_around(write) if holds]
    test = tests[0] if len(tests) == 1 else None
    bindings = ctx.module.definitions(test) if isinstance(test, ast.Name) else ()
    given = len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER
    return test.id if isinstance(test, ast.Name) and given else None
