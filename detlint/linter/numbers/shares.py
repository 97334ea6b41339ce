"""Are shares added up, which are meant to come to one but for rounding?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.numbers.sources import made_as
from detlint.linter.numbers.value_parts import walk_values
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_ONES = ("torch.ones", "torch.ones_like")


def adds_up_to_one(total: ast.expr, one: ast.expr, ctx: Context) -> bool:
    """`assert probs.sum() == 1`, `torch.equal(torch.softmax(x, -1).sum(-1), torch.ones(3))`: names tell of shares."""
    made = made_as(total, ctx) or total
    if isinstance(made, ast.Call) and identifier(made.func) in rounding_table().keeping - {"sum"}:
        made = made.func.value if isinstance(made.func, ast.Attribute) else made  # `.item()`
    if not isinstance(made, ast.Call) or identifier(made.func) != "sum" or not _is_one(one, ctx):
        return False
    added = [made, made.func.value] if isinstance(made.func, ast.Attribute) else []
    if any(value.is_integral for part in added for value in ctx.values(part)):
        return False
    # Python's own `sum` adds in one order everywhere.
    return bool(added) and any(_is_of_shares(part, ctx) for part in walk_values(made))


def _is_of_shares(part: ast.AST, ctx: Context) -> bool:
    """`probs`, `torch.softmax(x, -1)`, and `p` after `p = np.array(prob_category)`."""
    words = rounding_table().shares
    made = made_as(part, ctx) if isinstance(part, ast.Name) else None
    named = [part, *(walk_values(made) if made is not None else ())]
    return any(not words.isdisjoint(identifier(each).split("_")) for each in named)


def _is_one(node: ast.expr, ctx: Context) -> bool:
    made = made_as(node, ctx) or node
    ones = isinstance(made, ast.Call) and any(name in _ONES for name in ctx.callees(made))
    constant = ctx.constant(node)
    return ones or (isinstance(constant, (int, float)) and not isinstance(constant, bool) and constant == 1)
