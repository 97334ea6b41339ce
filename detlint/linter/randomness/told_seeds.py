"""Seeds that are made up where none is given, and told: who wants the same results again gives that number."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.randomness.messages import is_told
from detlint.linter.source.names import Binding


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
    return any(map(_is_given, reaching - {binding})) and any(is_told(use, ctx) for use in uses)


def _is_given(binding: Binding) -> bool:
    """Is it a parameter, or set to something that is looked up?"""
    return isinstance(binding.node, ast.arg) or not isinstance(binding.value, (ast.Constant, type(None)))
