"""What the `**options` of a function hold, where all calls of it are seen, and so what a call that spreads them passes.

`def parts(rows, **options): return train_test_split(rows, **options)`, and `parts(rows, shuffle=True)` is all there is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from detlint.linter.analysis.classes import QUIET_BASES
from detlint.linter.analysis.constructions import callers_of
from detlint.linter.analysis.context import Call
from detlint.linter.analysis.dicts import entries_of, is_changed, written_items
from detlint.linter.analysis.made_by_callers import left_over
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.outline import PLAIN_DECORATORS
from detlint.linter.analysis.written_calls import written_out
from detlint.linter.source.names import FunctionNode, by_place, parameters
from detlint.linter.source.nodes import decorating, identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.callers import CallSite
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module
    from detlint.rulebook import Trigger

_MAX_STEPS = 6  # names, dictionaries and functions that hand their options on to each other


class _Item(NamedTuple):
    """What stands under a name: written in the file, or passed by callers; None where these differ."""

    value: ast.expr | None
    is_passed: bool = False


_Items: TypeAlias = Mapping[str, _Item]


def call_of(node: ast.Call, trigger: Trigger, ctx: Context, made: ast.Call | None = None) -> Call:
    """Return the call of a trigger with every argument that is written somewhere in the file, and what callers pass on.

    `made` is what the node has called, where that is another one.
    """
    written = written_out(ctx.module, made or node, trigger.name)
    spread = [held(keyword.value, ctx) for keyword in written.keywords if keyword.arg is None]
    known = [items for items in spread if items is not None]
    if not spread or len(known) < len(spread):
        return Call(node, trigger, written)
    items = {name: item for each in known for name, item in each.items()}
    keywords = [keyword for keyword in written.keywords if keyword.arg is not None]
    keywords += [ast.keyword(name, item.value) for name, item in items.items() if item.value and not item.is_passed]
    passed = {name: item.value for name, item in items.items() if item.is_passed}
    return Call(node, trigger, ast.Call(written.func, written.args, keywords), passed)


def held(options: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> _Items | None:
    """Return what a dictionary holds, None where something else may be in it."""
    known = written_items(ctx.module, options)
    if known is not None:
        return {name: _Item(value) for name, value in known.items()}
    if not steps:
        return None
    function = gathering(ctx.module, options)
    if function is not None:
        return _passed(function, ctx, steps)
    if isinstance(options, ast.Name):
        made = only_value(ctx.module, options) if not is_changed(ctx.module, options) else None
        return held(made, ctx, steps - 1) if made is not None else None
    entries = entries_of(options)
    items: dict[str, _Item] = {}
    for key, value in entries or ():
        name = key.value if isinstance(key, ast.Constant) else None
        part = held(value, ctx, steps - 1) if key is None else {name: _Item(value)} if isinstance(name, str) else None
        if part is None:
            return None
        items.update(part)
    return items if entries is not None else None


def gathering(module: Module, options: ast.expr) -> FunctionNode | None:
    """Return the function whose `**options` a name is, where that only reads them; None of anything else."""
    bindings = module.definitions(options) if isinstance(options, ast.Name) else ()
    function = bindings[0].scope.node if len(bindings) == 1 else None
    if not isinstance(options, ast.Name) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    if function.args.kwarg is not bindings[0].node or is_changed(module, options):
        return None
    return None if any(_is_handed_on(use, module) for use in module.index.uses_of(options)) else function


def _is_handed_on(use: ast.Name, module: Module) -> bool:
    """`prepare(options)`, which may change them."""
    parent = module.index.parents.get(use)
    return isinstance(parent, ast.Call) or (isinstance(parent, ast.keyword) and parent.arg is not None)


def _passed(function: FunctionNode, ctx: Context, steps: int) -> _Items | None:
    """Return what all calls of a function pass behind its own parameters, None where one is not seen."""
    if _may_be_called_unseen(function, ctx):
        return None
    sites = [site for site in callers_of(function, ctx, handed=True) or () if _fits(site[1], function)]
    given: list[_Items] = []
    for site in sites:
        items = _given(site, function, steps)
        if items is None:
            return None
        given.append(items)
    names = dict.fromkeys(name for items in given for name in items)
    return {name: _same([items.get(name) for items in given]) for name in names} if given else None


def _may_be_called_unseen(function: FunctionNode, ctx: Context) -> bool:
    """May it be called by a decorator, as the method of a base that it overrides, or by a framework?"""
    owner = ctx.module.index.class_at(function)
    makes = owner is not None and function.name == "__init__"
    decorators = [*function.decorator_list, *(owner.decorator_list if makes and owner is not None else ())]
    if any(identifier(decorating(decorator)) not in PLAIN_DECORATORS for decorator in decorators):
        return True
    if owner is None or makes:
        return False
    info = ctx.inference.class_info(owner)
    if any(function.name in base.methods for base in ctx.inference.mro(info)[1:]):
        return True
    return not QUIET_BASES.issuperset(ctx.inference.external_bases(info))


def _fits(call: ast.Call, function: FunctionNode) -> bool:
    """Could a function be called so? `text.split(",")` is no call of `def split(self, **options)`."""
    method = by_place(function.args)[:1] in (["self"], ["cls"])
    places = by_place(function.args)[method:]
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if starred or (len(call.args) > len(places) and function.args.vararg is None):
        return starred
    given = {*places[: len(call.args)], *(keyword.arg for keyword in call.keywords)}
    needed = {argument.arg for argument, default in parameters(function.args) if default is None}
    return None in given or needed.intersection(places) <= given


def _given(site: CallSite, function: FunctionNode, steps: int) -> _Items | None:
    """Return what one call passes behind the parameters of a function, as far as it means the same in any file."""
    where, call = site
    items: dict[str, _Item] = {}
    for keyword in left_over(call, function, call.func).keywords:
        spread = keyword.arg is None
        part = held(keyword.value, where, steps - 1) if spread else {keyword.arg or "": _Item(keyword.value)}
        if part is None:
            return None
        items.update({name: _Item(_literal(item.value, where), is_passed=True) for name, item in part.items()})
    return items


def _literal(value: ast.expr | None, ctx: Context) -> ast.Constant | None:
    known = ctx.constant(value)
    return ast.Constant(known) if known is None or isinstance(known, (str, int, float)) else None


def _same(items: list[_Item | None]) -> _Item:
    """Return what is the same literal each time; it is in no file, so nothing is known of its place."""
    values = [item.value if item is not None else None for item in items]
    told = {(type(value.value), value.value) if isinstance(value, ast.Constant) else None for value in values}
    return _Item(values[0] if len(told) == 1 else None, is_passed=True)
