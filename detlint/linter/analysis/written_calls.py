"""Calls with all their arguments: those that `**` spreads, and those that a `functools.partial` was given before.

So those that nobody writes as such: `map` calls what it is given, and so does a process.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.dicts import kept_items, written_items
from detlint.linter.analysis.lookups import looked_up
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.node_lists import is_partial, picked
from detlint.linter.source.nodes import identifier, unless_none

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_PARTIAL = "functools.partial"
# What a process, a thread or a pool of them calls, and with which arguments.
_STARTED = {"initializer": "initargs", "target": "args"}


def written_out(module: Module, call: ast.Call, called: str) -> ast.Call:
    """Return a call of what is named `called`, with every argument in its place that is written somewhere.

    `options = {"dim": 0}` and `f(x, **options)`, `drop = partial(F.dropout, p=0.1)` and `drop(x)`. What cannot be
    told stays behind its `**`.
    """
    args, keywords = list(call.args), _spread(module, call.keywords)
    given = _partial(module, call.func, called)
    if given is not None:
        named = {keyword.arg for keyword in keywords}
        args[:0] = given.args[1:]
        keywords += [keyword for keyword in _spread(module, given.keywords) if keyword.arg not in named]
    if len(args) == len(call.args) and keywords == call.keywords:
        return call
    return ast.Call(call.func, args, keywords)


def _spread(module: Module, keywords: list[ast.keyword]) -> list[ast.keyword]:
    written: list[ast.keyword] = []
    for keyword in keywords:
        items = written_items(module, keyword.value) if keyword.arg is None else None
        if items is None:
            known = kept_items(module, keyword.value) if keyword.arg is None else {}
            written += [*(ast.keyword(name, value) for name, value in known.items()), keyword]
        else:
            written += [ast.keyword(name, value) for name, value in items.items()]
    return written


def _partial(module: Module, function: ast.expr, called: str) -> ast.Call | None:
    """Return the `partial(…)` behind what is called for another one: a name, an entry of a table, or itself."""
    if identifier(function) == called.rpartition(".")[2]:
        return None
    kept = only_value(module, function) if isinstance(function, (ast.Name, ast.Attribute)) else None
    made = unless_none(kept) if kept is not None else function
    if isinstance(made, ast.Subscript):
        found = looked_up(module.inference, made.value, made.slice)
        return next((value for where, value in found if is_partial(value) and called in where.resolve(value)), None)
    if not isinstance(made, ast.Call):
        return None
    if made.args and _PARTIAL in module.inference.resolve(made.func):
        return made
    for where, helper in functions_called(module.inference, made):  # `drop = dropout_of(kind, rate)`
        given = picked(helper)
        if isinstance(given, ast.Call) and called in where.inference.resolve(given):
            return given
    return None


def mapped(module: Module, call: ast.Call) -> ast.Call | None:
    """Return the call that `map(resize, images, sizes)` makes for each of its elements, None of anything else."""
    if getattr(call.func, "id", "") != "map" or len(call.args) < 2 or call.keywords:
        return None
    if "builtins.map" not in module.inference.resolve(call.func):
        return None
    return ast.copy_location(ast.Call(call.args[0], call.args[1:], []), call)


def started(module: Module, use: ast.expr) -> ast.Call | None:
    """Return the call that `Pool(2, initializer=prepare, initargs=(rows, None))` makes of `prepare`.

    None of anything else, and of arguments that are not written out.
    """
    keyword = module.index.parents.get(use)
    around = module.index.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(keyword, ast.keyword) or not isinstance(around, ast.Call) or keyword.arg not in _STARTED:
        return None
    given = {word.arg: word.value for word in around.keywords}
    arguments = given.get(_STARTED[keyword.arg], ast.Tuple([], ast.Load()))
    if not isinstance(arguments, (ast.Tuple, ast.List)) or not given.keys().isdisjoint({None, "kwargs"}):
        return None
    return ast.copy_location(ast.Call(use, arguments.elts, []), around)
