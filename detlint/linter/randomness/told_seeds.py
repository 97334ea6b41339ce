"""Seeds that are made up where none is given, and told: who wants the same results again gives that number."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.randomness.messages import is_told
from detlint.linter.source.nodes import identifier


def can_be_given_again(made_up: ast.expr, ctx: Context) -> bool:
    """`if seed is None:`, `seed = urandom(4)` and `logging.info(f"SEED={seed}")`.

    `made_up`: what no run repeats.
    """
    statement = ctx.statement(made_up)
    binding = ctx.binding(statement.value) if isinstance(statement, ast.Assign) else None
    if binding is None or not any(_asks_for_one(test) for test, _ in ctx.module.index.conditions_around(made_up)):
        return False
    return any(is_told(use, ctx) for use in ctx.flow(made_up).uses(binding))


def _asks_for_one(test: ast.expr) -> bool:
    """Does a condition ask whether something is given: `seed is None`, `not seed`, `seed`?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks_for_one(test.operand)
    if isinstance(test, ast.Compare):
        return getattr(test.comparators[0], "value", ...) is None
    return "seed" in identifier(test).lower()
