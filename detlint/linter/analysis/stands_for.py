"""What does an expression stand for, one step back: a name, an attribute, a parameter, what a helper is called for?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from detlint.linter.analysis.callers import given_by_callers
from detlint.linter.analysis.returned import returned_by
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, element_at
from detlint.linter.source.nodes import is_none, is_own, unless_none

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


class Meant(NamedTuple):
    """An expression with the context of its file; what is meant is what stands at the `place` of the tuple it gives."""

    node: ast.expr
    ctx: Context
    place: tuple[int, ...] = ()


def stands_for(node: ast.expr, ctx: Context) -> list[Meant]:
    """Return all that an expression may be, one step back; nothing where a part of that is out of sight.

    `rows` after `rows = choose(x)` is that call, `choose(x)` what the function returns, a parameter what each call of
    its function in the project passes, `self.rows` what its class sets it to, and `rows if wanted else None` is `rows`.
    """
    if isinstance(node, ast.Name):
        return _all(_bound(binding, ctx) for binding in ctx.module.definitions(node))
    if isinstance(node, ast.Attribute):
        return _kept(node, ctx) if is_own(node) else []
    if isinstance(node, ast.IfExp):
        one = unless_none(node)
        return [Meant(arm, ctx) for arm in ((node.body, node.orelse) if one is node else (one,))]
    if isinstance(node, ast.Call):
        return [Meant(value, inside) for value, inside in returned_by(ctx.callees(node), ctx) or ()]
    return []


def results(node: ast.expr, ctx: Context, steps: int) -> list[Meant]:
    """Return what an expression stands for in the end, followed so many steps back: other calls than of the project.

    Nothing where one way leads out of sight.
    """
    return _followed(Meant(node, ctx), steps)


def _followed(meant: Meant, steps: int) -> list[Meant]:
    whole = element_at(meant.node, meant.place)
    meant = meant if whole is None else Meant(whole, meant.ctx)
    before = stands_for(meant.node, meant.ctx)
    if not before:
        return [meant]
    if steps == 0:
        return []
    return _all(_followed(each._replace(place=each.place + meant.place), steps - 1) for each in before)


def _all(ways: Iterable[list[Meant]]) -> list[Meant]:
    """Return what several ways lead to, but for those to None; nothing where one of them leads nowhere."""
    found: list[Meant] = []
    for way in ways:
        if not way:
            return []
        found += way
    return [each for each in found if not is_none(each.node)] or found


def _bound(binding: Binding, ctx: Context) -> list[Meant]:
    if binding.kind is BindingKind.PARAMETER:
        return _passed(binding, ctx)
    value = unless_none(binding.value)
    if value is None or binding.kind is not BindingKind.ASSIGN or -1 in binding.index:
        return []
    return [_taken(value, binding.index, ctx)]


def _taken(value: ast.expr, place: tuple[int, ...], ctx: Context) -> Meant:
    """Return the part of a tuple that is written out, or else the place in what gives it."""
    part = element_at(value, place)
    return Meant(value, ctx, place) if part is None else Meant(part, ctx)


def _passed(parameter: Binding, ctx: Context) -> list[Meant]:
    function = parameter.scope.node
    if not isinstance(function, FUNCTIONS):
        return []
    return _all([Meant(*given)] if given else [] for given in given_by_callers(function, parameter.name, ctx))


def _kept(attribute: ast.Attribute, ctx: Context) -> list[Meant]:
    """Return all that the class of `self.rows` sets it to."""
    owner = ctx.module.index.class_at(attribute)
    if owner is None:
        return []
    writes = ctx.inference.attribute_writes(ctx.inference.class_info(owner), attribute.attr)
    ways = ((unless_none(write.value), write.index, ctx.elsewhere(cls.module)) for cls, write in writes)
    return _all([_taken(value, place, inside)] if value is not None else [] for value, place, inside in ways)
