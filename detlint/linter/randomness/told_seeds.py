"""Seeds that are made up where none is given, and told: who wants the same results again gives that number."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.randomness.messages import is_told
from detlint.linter.source.nodes import walk

_ENVIRONMENT = frozenset({"os.environ", "os.getenv", "os.environ.get"})
_MAX_STEPS = 2


def can_be_given_again(made_up: ast.expr, ctx: Context) -> bool:
    """`seed = int(os.environ["SEED"])`, `seed = urandom(4)` on another branch, and `logging.info(f"SEED={seed}")`.

    `made_up`: what no run repeats.
    """
    statement = ctx.statement(made_up)
    binding = ctx.binding(statement.value) if isinstance(statement, ast.Assign) else None
    if binding is None:
        return False
    uses = tuple(ctx.flow(made_up).uses(binding))
    reaching = {other for use in uses if isinstance(use, ast.Name) for other in ctx.module.definitions(use)}
    given = (other.value for other in reaching - {binding} if other.value is not None)
    return any(_is_from_outside(value, ctx) for value in given) and any(is_told(use, ctx) for use in uses)


def _is_from_outside(value: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Does whoever starts the program say it, in the environment? A parameter is for those who call the function."""
    for part in walk(value):
        if isinstance(part, (ast.Name, ast.Attribute)) and not _ENVIRONMENT.isdisjoint(ctx.resolve(part)):
            return True
        behind = ctx.module.definitions(part) if isinstance(part, ast.Name) and steps else ()
        values = (binding.value for binding in behind if binding.value is not None)
        if any(_is_from_outside(each, ctx, steps - 1) for each in values):
            return True
    return False
