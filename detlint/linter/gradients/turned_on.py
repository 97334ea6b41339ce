"""Which branches does a model only take at inference? Those of a flag that only code without gradients turns on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.context import MISSING
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.names import BindingKind

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

_MOST_FILES = 16


def is_turned_on_to_infer(node: ast.AST, ctx: Context) -> bool:
    """`if upsample:` of a parameter that is off by default, where only calls under `no_grad` pass `upsample=True`."""
    return any(
        _is_off_by_default(flag, on, ctx) and _is_set_to_infer(flag.id, on, ctx)
        for test, holds in ctx.module.index.conditions_around(node)
        for flag, on in _flags(test, holds)
    )


def _flags(test: ast.expr, holds: bool) -> Iterator[tuple[ast.Name, bool]]:
    """Yield the variables that must be true or false where a test holds: `upsample`, `not training`, parts of `and`."""
    if isinstance(test, ast.Name):
        yield test, holds
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _flags(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
        for part in test.values:
            yield from _flags(part, holds)


def _is_off_by_default(flag: ast.Name, on: bool, ctx: Context) -> bool:
    bindings = ctx.module.definitions(flag)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER or bindings[0].value is None:
        return False
    default = ctx.constant(bindings[0].value)
    return default is not MISSING and bool(default) is not on


def _is_set_to_infer(name: str, on: bool, ctx: Context) -> bool:
    """Does the project pass a flag of this name, and only where nothing is trained? Handed on, it is what it was."""
    found = False
    for module in _mentioning(name, ctx):
        where = ctx.elsewhere(module)
        for call in module.index.of_type(ast.Call):
            for given in (keyword.value for keyword in call.keywords if keyword.arg == name):
                known = where.constant(given)
                if known is MISSING:
                    if not isinstance(given, ast.Name) or not _is_off_by_default(given, on, where):
                        return False
                elif bool(known) is on:
                    if not without_gradients(module, call):
                        return False
                    found = True
    return found


def _mentioning(name: str, ctx: Context) -> list[Module]:
    """Return the files that may pass an argument of this name; none where too many hold the word."""
    search = ctx.module.project.search(name, ctx.module, _MOST_FILES)
    if search is None:
        return [ctx.module]
    return list(dict.fromkeys((ctx.module, *map(ctx.module.project.at, search.found)))) if search.found else []
