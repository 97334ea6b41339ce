"""Is an order left open only for who asks for that: `track(tasks, keep_order=False)`?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.source.names import FunctionNode

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_ASKED = re.compile(r"order|sort|determin")


def is_left_open_on_request(node: ast.AST, ctx: Context) -> bool:
    """Does `node` stand where an option about the order is not as it is by default, and does no call here say so?"""
    function = ctx.function(node)
    return function is not None and any(
        isinstance(test, ast.Name)
        and _ASKED.search(test.id) is not None
        and test.id in {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        and truth_by_default(test, ctx) is (Truth.NO if holds else Truth.YES)
        and _nobody_says(function, test.id, holds, ctx)
        for test, holds in ctx.module.index.branches_around(node)
    )


def _nobody_says(function: FunctionNode, option: str, value: bool, ctx: Context) -> bool:
    """Does each call in the project leave an option as it is, or set it to the other of two values?"""
    for site in calls_of(function, ctx):
        given = argument_of(function, option, site[1], skip_self=True) if site is not None else None
        spread = site is None or any(keyword.arg is None for keyword in site[1].keywords)
        other = given is None or (isinstance(given, ast.Constant) and bool(given.value) is not value)
        if spread or not other:
            return False
    return True
