"""Is what a parameter calls by default replaced by every caller: `def pick(rows, draw=random.sample)`?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.constructions import callers_of
from detlint.linter.analysis.defaults import may_be_none
from detlint.linter.analysis.only_values import set_once
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.source.names import Binding


def is_replaced(call: ast.Call, ctx: Context) -> bool:
    """Return whether all calls of a function in the project give it something else to call, and there is one.

    So for `draw(rows)`, `rng.sample(rows)`, and `self.draw(rows)` where the constructor keeps the parameter.
    """
    binding = _parameter(call.func, ctx)
    function = binding.scope.node if binding is not None else None
    if binding is None or not isinstance(function, FUNCTIONS):
        return False
    known = set(ctx.callees(call))
    sites = callers_of(function, ctx)
    for where, site in sites or ():
        given = argument_of(function, binding.name, site, skip_self=True)
        if given is None or may_be_none(given, where) or _means(given, known, where):
            return False
    return bool(sites)


def _parameter(called: ast.expr, ctx: Context) -> Binding | None:
    """Return the parameter that the callee comes out of, `rng` for `rng.sample` and `self.rng.sample`.

    One that is a function or a module unless a caller says otherwise: `rng=random`, or None and then `rng = random`.
    """
    while isinstance(called, ast.Attribute) and not is_own(called):
        called = called.value
    kept = set_once(ctx.module, called) if is_own(called) else called
    bindings = ctx.module.definitions(kept) if isinstance(kept, ast.Name) else ()
    named = any(isinstance(binding.value, (ast.Name, ast.Attribute)) for binding in bindings)
    return next((binding for binding in bindings if named and binding.kind is BindingKind.PARAMETER), None)


def _means(given: ast.expr, known: set[str], ctx: Context) -> bool:
    """Does a caller give what is meant by default, or the module that holds it?"""
    return any(name == other or name.startswith(f"{other}.") for other in ctx.resolve(given) for name in known)
