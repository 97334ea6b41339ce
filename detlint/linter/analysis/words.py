"""Which words may an argument be: written in place, by default, or by what calls pass for a parameter?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Context
from detlint.linter.source.names import FUNCTIONS, parameters

# Calls that a word is followed through, from the parameter back to where it is written.
MAX_CALLS = 3


def words_of(node: ast.expr, ctx: Context, steps: int) -> list[str]:
    """Return the strings that `"bilinear" if flat else "trilinear"` is one of, none where it may be something else.

    A parameter is what it is by default, and what calls in the project pass for it, `steps` of them in a row.
    """
    words: dict[str, None] = {}
    for value in ctx.values(node):
        made = value.node
        found: list[str] = []
        if isinstance(made, ast.Constant) and isinstance(made.value, str):
            found = [made.value]
        elif isinstance(made, ast.arg) and value.module is not None and steps:
            asked = _Parameter(made, steps - 1, ctx.elsewhere(value.module))
            found = ctx.module.project.once(_words_passed, asked)
        if not found:
            return []
        words.update(dict.fromkeys(found))
    return list(words)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter that is asked what it is, `steps` calls back; the answer is that of any context of its file."""

    node: ast.arg
    steps: int
    ctx: Context = field(compare=False)


def _words_passed(asked: _Parameter) -> list[str]:
    """Return the strings that a parameter is by default and that calls in the project pass for it."""
    parameter, ctx, steps = asked.node, asked.ctx, asked.steps
    function = ctx.parent(ctx.parent(parameter) or parameter)
    if not isinstance(function, FUNCTIONS):
        return []
    default = next((default for argument, default in parameters(function.args) if argument is parameter), None)
    words = words_of(default, ctx, steps) if default is not None else []
    if default is not None and not words and ctx.constant(default) is not None:
        return []
    owner = ctx.module.index.class_at(function)
    called = owner if owner is not None and function.name == "__init__" else function
    for inside, call in (site for site in calls_of(called, ctx) if site is not None):
        passed = argument_of(function, parameter.arg, call, skip_self=True)
        words += words_of(passed, inside, steps) if passed is not None else []
    return words
