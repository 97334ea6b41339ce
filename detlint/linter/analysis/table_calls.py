"""Calls of what stands in tables: `LAYERS[kind](dim)`, and `self.drop(x)` after `self.drop = DROPS[kind]`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import read_elsewhere
from detlint.linter.analysis.lookups import looked_up
from detlint.linter.analysis.program import calls_named
from detlint.linter.source.names import BindingKind, FunctionNode, set_to
from detlint.linter.source.nodes import identifier, receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_Meant = tuple[tuple[ast.Call, frozenset[str]], ...]


def calls_meaning(module: Module, lasts: Collection[str]) -> list[ast.Call]:
    """Return the calls of a file that can mean one of the identifiers `lasts`, those by tables of other files last."""
    by_table = (call for call, means in of_imported_tables(module) if not means.isdisjoint(lasts))
    return list(dict.fromkeys((*calls_named(module, lasts), *by_table)))


def of_imported_tables(module: Module) -> _Meant:
    """Return calls of what stands in tables that are imported, each with the identifiers that it may mean."""
    return module.project.once(_find, module)


def calls_of_entry(module: Module, display: ast.Dict, value: ast.expr) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of what stands in a table of this file, in all files: `DROPS[kind](x)` for the value of a key."""
    for name in map(identifier, set_to(display, module.index.parents)):
        own = ((module, use) for use in module.index.names_used.get(name, ()) if isinstance(use, ast.expr))
        for where, table in (*own, *read_elsewhere(name, module)):
            for entry, key in _entries_of(where, table):
                if any(held is value for _, held in looked_up(where.inference, table, key)):
                    yield from ((where, call) for call in _calls_of(where, entry))


def calls_by_table(module: Module, function: FunctionNode) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a function of the file out of tables that it stands in: `TERMS = {"classes": by_class}`."""
    for use in module.index.names_used.get(function.name, ()):
        display = module.index.parents.get(use)
        if isinstance(use, ast.Name) and isinstance(display, ast.Dict) and use in display.values:
            yield from calls_of_entry(module, display, use)


def _find(module: Module) -> _Meant:
    entries = (entry for table in _imported(module) for entry, _ in _entries_of(module, table))
    calls = dict.fromkeys(call for entry in entries for call in _calls_of(module, entry))
    return tuple((call, frozenset(map(_last, module.inference.callees(call)))) for call in calls)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _imported(module: Module) -> Iterator[ast.expr]:
    """Yield what may be a table that is imported, `DROPS` and `layers.DROPS`, where something is looked up in it."""
    found = [entry.value for entry in module.index.of_type(ast.Subscript) if isinstance(entry.ctx, ast.Load)]
    found += filter(None, map(receiver_of, module.index.calls_by_name.get("get", ())))
    for table in found:
        root = table
        while isinstance(root, ast.Attribute):
            root = root.value
        bindings = module.definitions(root) if isinstance(root, ast.Name) else ()
        if bindings and all(binding.kind is BindingKind.IMPORT for binding in bindings):
            yield table


def _entries_of(module: Module, table: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield `DROPS[kind]` and `DROPS.get(kind)` around a table, with the key."""
    around = module.index.parents.get(table)
    if isinstance(around, ast.Subscript) and around.value is table:
        yield around, around.slice
    call = module.index.parents.get(around) if isinstance(around, ast.Attribute) else None
    if isinstance(call, ast.Call) and identifier(call.func) == "get" and call.func is around and call.args:
        yield call, call.args[0]


def _calls_of(module: Module, entry: ast.expr) -> Iterator[ast.Call]:
    """Yield the call of an entry of a table, and those of the names that it is given."""
    around = module.index.parents.get(entry)
    if isinstance(around, ast.Call) and around.func is entry:
        yield around
    for target in set_to(module.index.with_choice(entry), module.index.parents):
        yield from module.index.calls_by_name.get(identifier(target), ())
