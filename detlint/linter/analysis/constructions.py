"""Who calls a function, or makes objects by a constructor: of the class itself, of one derived from it, of a table?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import CallSite, calls_of, mentioning, uses_named
from detlint.linter.analysis.lookups import tables_filled_by
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import decorating, identifier, receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 4  # classes that derive from each other
# Decorators of classes that hand them to nobody.
_PLAIN = frozenset({"dataclasses.dataclass", "functools.total_ordering", "typing.final", "typing.runtime_checkable"})
# What looks at the keys of a table, or at the table as a whole, and calls nothing in it.
_LOOKS = frozenset({"bool", "join", "len", "list", "print", "set", "sorted", "tuple"})


def callers_of(function: FunctionNode, ctx: Context, *, handed: bool = False) -> list[CallSite] | None:
    """Return the calls of a function, or of the class that it makes, outside tests; None if others may call it too.

    With `handed`, calls that a pool or a thread makes of it count as well.
    """
    owner = ctx.module.index.class_at(function)
    makes = function.name == "__init__" and owner is not None
    sites = list(constructions(owner, ctx) if makes and owner is not None else calls_of(function, ctx, handed=handed))
    known = [site for site in sites if site is not None]
    return None if len(known) < len(sites) else [site for site in known if not is_test_file(site[0].module)]


def constructions(owner: ast.ClassDef, ctx: Context, steps: int = _MAX_STEPS) -> Iterator[CallSite | None]:
    """Yield each call in the project that runs the constructor which a class defines, None where one is not seen.

    These are calls of the class and of those that inherit it, `super().__init__(…)` in those that have their own, and
    `TASKS[name](path)` where a decorator puts one of them into a table.
    """
    yield from _from_tables(owner, ctx)
    yield from calls_of(owner, ctx, handed=True, derived=True)
    qualified = ctx.module.qualified(owner)
    for where in (ctx, *mentioning(owner.name, ctx)):
        for use in uses_named(where, owner.name) if where is not None else ():
            heir = where.parent(use) if where is not None else None
            if where is None or not isinstance(heir, ast.ClassDef) or use not in heir.bases:
                continue
            if qualified in where.resolve(use):
                yield from _through(heir, where, steps)


def _through(heir: ast.ClassDef, ctx: Context, steps: int) -> Iterator[CallSite | None]:
    """Yield the calls by which a class that derives from another one runs its constructor."""
    own = ctx.inference.class_info(heir).methods.get("__init__")
    if not steps:
        yield None
    elif own is None:
        yield from constructions(heir, ctx, steps - 1)
    else:
        for call in ctx.module.index.calls_by_name.get("__init__", ()):
            if ctx.function(call) is own:
                through_super = isinstance(maker := receiver_of(call), ast.Call) and identifier(maker.func) == "super"
                yield (ctx, call) if through_super else None


def _from_tables(owner: ast.ClassDef, ctx: Context) -> Iterator[CallSite | None]:
    """Yield the calls of what decorators of a class put it into; None for a decorator that does something else."""
    for decorator in owner.decorator_list:
        called = decorating(decorator)
        if not _PLAIN.isdisjoint(ctx.resolve(called)):
            continue
        tables = list(tables_filled_by(ctx.inference, called))
        for module, table in tables:
            yield from _calls_of_entries(table, ctx.elsewhere(module))
        if not tables:
            yield None


def _calls_of_entries(table: str, home: Context) -> Iterator[CallSite | None]:
    """Yield the calls of what is looked up in a table of a file, None for what else may call it."""
    qualified = f"{home.module.name}.{table}"
    for where in (home, *mentioning(table, home)):
        if where is None:
            yield None
            return
        for use in uses_named(where, table):
            own = where is home and isinstance(use, ast.Name)
            if isinstance(use.ctx, ast.Load) and (own or qualified in where.resolve(use)):
                yield from _looked_up(use, where)


def _looked_up(table: ast.expr, ctx: Context) -> Iterator[CallSite | None]:
    """`TASKS[name](path)`, `TASKS.get(name)(path)`, `{"task": TASKS}[kind][name](path)`."""
    parent = ctx.parent(table)
    around = ctx.parent(parent) if parent is not None else None
    if isinstance(parent, ast.Subscript) and parent.value is table:
        yield from _called(parent, ctx) if isinstance(parent.ctx, ast.Load) else ()
    elif isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and parent.attr in ("get", "pop"):
        yield from _called(around, ctx)
    elif isinstance(parent, ast.Dict) and isinstance(around, ast.Subscript) and around.value is parent:
        yield from _looked_up(around, ctx)
    elif not _only_looks(table, parent):
        yield None


def _only_looks(table: ast.expr, parent: ast.AST | None) -> bool:
    """`name in TASKS`, `sorted(TASKS)`, `TASKS.keys()`, `for name in TASKS:`."""
    if isinstance(parent, ast.Call):
        return identifier(parent.func) in _LOOKS
    keys = isinstance(parent, ast.Attribute) and parent.attr == "keys"
    loops = isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is table
    return keys or loops or isinstance(parent, (ast.Compare, ast.FormattedValue))


def _called(entry: ast.expr, ctx: Context) -> Iterator[CallSite | None]:
    """Yield the call of an entry, also under a name: `made = TASKS[name]`, then `made(path)`."""
    parent = ctx.parent(entry)
    binding = ctx.binding(entry)
    if isinstance(parent, ast.Call) and parent.func is entry:
        yield ctx, parent
    elif binding is not None and not isinstance(binding.scope.node, ast.Module):
        for use in ctx.flow(entry).uses(binding):
            yield from _called(use, ctx)
    else:
        yield None
