"""What does a function of the project give back, as it is written in its `return` statements?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.element_fills import entries
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import decorating, identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

_NAMED = 2  # statements: `names = os.listdir(folder)`, `return names`
_MAX_STEPS = 4  # of names, conditions and functions that lead on


def returned_by(names: tuple[str, ...], ctx: Context) -> list[tuple[ast.expr, Context]] | None:
    """Return each expression that a called function returns, with the context of its file; [] where that is nothing.

    `names` are what the call may refer to. None if that is not a function of the project, and no other.
    """
    definitions = [ctx.module.project.definition(name) for name in names]
    if len(definitions) != 1 or definitions[0] is None or not isinstance(definitions[0][1], FUNCTIONS):
        return None
    inside = ctx.elsewhere(definitions[0][0])
    statements = inside.module.flow(inside.module.index.scopes[definitions[0][1]]).returns()
    return [(statement.value, inside) for statement in statements if statement.value is not None]


def only_hands_on(function: FunctionNode) -> bool:
    """`def listed(folder): return os.listdir(folder)`: what becomes of it is the same as without such a function.

    What it returns may have a name first. A property is read by whoever holds the object.
    """
    if any("property" in identifier(decorating(decorator)) for decorator in function.decorator_list):
        return False
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    last = statements[-1] if statements else None
    if len(statements) > _NAMED or not isinstance(last, ast.Return) or last.value is None:
        return False
    named = statements[0].targets if isinstance(statements[0], ast.Assign) else []
    return len(statements) == 1 or list(map(ast.unparse, named)) == [ast.unparse(last.value)]


def made_at_last(value: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> list[tuple[ast.expr, Context]]:
    """Return what an expression is made by: `Random()` for `make()`, a function of the project that returns that.

    Of `make() if given else None` both; of anything else itself.
    """
    if isinstance(value, ast.IfExp) and steps:
        return [made for part in (value.body, value.orelse) for made in made_at_last(part, ctx, steps - 1)]
    known = only_value(ctx.module, value) if isinstance(value, ast.Name) else None
    if known is not None and steps:
        return made_at_last(known, ctx, steps - 1)
    inside = returned_by(ctx.callees(value), ctx) if isinstance(value, ast.Call) and steps else None
    if not inside:
        return [(value, ctx)]
    return [made for part, where in inside for made in made_at_last(part, where, steps - 1)]


def made_results(module: Module, function: FunctionNode) -> list[ast.expr | None]:
    """Return what a function gives back; not what it takes out of a cache that it puts other results of its own in."""
    returned = [statement.value for statement in module.flow(module.index.scopes[function]).returns()]
    names = {value.id for value in returned if isinstance(value, ast.Name)}
    return [value for value in returned if value is None or not _is_cached(module, value, names)]


def _is_cached(module: Module, value: ast.expr, results: set[str]) -> bool:
    """`return self.known[key]`, after `self.known[key] = result` and beside `return result`."""
    cache = value.value if isinstance(value, ast.Subscript) else None
    if not isinstance(cache, (ast.Name, ast.Attribute)):
        return False
    put_in = [entry for entry, _ in entries(cache, module.index)]
    return bool(put_in) and all(isinstance(entry, ast.Name) and entry.id in results for entry in put_in)
