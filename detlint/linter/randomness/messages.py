"""Does a draw only pick the words of a message for people: `print(f"{random.choice(['Done', 'Great'])}! Saved.")`?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.callers import results_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.programs.unseen import tells_people
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.order import order_table

_PICKING = frozenset({"random.choice", "numpy.random.choice"})
_WORDING = frozenset({"format", "upper", "lower", "capitalize", "title", "strip", "replace"})
_PARTS = (ast.JoinedStr, ast.FormattedValue, ast.IfExp)
_MAX_STEPS = 3


def only_words_a_message(draw: ast.Call, name: str, ctx: Context) -> bool:
    """Return whether one of several texts is drawn that are written out, and it is shown as a part of others alone."""
    given = draw.args[0] if name in _PICKING and len(draw.args) == 1 else None
    texts = only_value(ctx.module, given) if isinstance(given, ast.Name) else given
    words = texts.elts if isinstance(texts, (ast.List, ast.Tuple)) else []
    written = bool(words) and all(isinstance(ctx.constant(word), str) for word in words)
    return written and _is_shown(draw, ctx, _MAX_STEPS, within=False)


def is_told(value: ast.expr, ctx: Context) -> bool:
    """Return whether a value goes into what people are told, alone or as a part of it, and nowhere else."""
    return _is_shown(value, ctx, _MAX_STEPS, within=True)


def _is_shown(text: ast.expr, ctx: Context, steps: int, *, within: bool) -> bool:
    """Does a text only go into what people are told, as a part of it: `within`? One alone may be what was drawn for."""
    parent = ctx.parent(text)
    if isinstance(parent, _PARTS) or (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Mod))):
        return _is_shown(parent, ctx, steps, within=within or not isinstance(parent, ast.IfExp))
    if isinstance(parent, ast.Attribute) and parent.attr in _WORDING:
        call = ctx.parent(parent)
        return isinstance(call, ast.Call) and call.func is parent and _is_shown(call, ctx, steps, within=within)
    if isinstance(parent, ast.Call):
        return _is_told(text, parent, ctx, steps, within=within)
    if isinstance(parent, ast.Return):
        return steps > 0 and _is_shown_by_callers(parent, ctx, steps - 1, within=within)
    binding = ctx.binding(text) if isinstance(parent, ast.Assign) else None
    if binding is None or not steps or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = ctx.flow(text).uses(binding)
    return bool(uses) and all(_is_shown(use, ctx, steps - 1, within=within) for use in uses)


def _is_told(text: ast.expr, call: ast.Call, ctx: Context, steps: int, *, within: bool) -> bool:
    """`print(text)`, `"{}!".format(text)`."""
    if text is call.func:
        return False
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant):
        return identifier(call.func) == "format" and _is_shown(call, ctx, steps, within=True)
    several = len(call.args) > 1
    shows = tells_people(ctx.module, call) or identifier(call.func).startswith("print_")
    shows = shows or not order_table().functions["showing"].isdisjoint(ctx.callees(call))
    return shows and (within or several)


def _is_shown_by_callers(returned: ast.Return, ctx: Context, steps: int, *, within: bool) -> bool:
    function = ctx.function(returned)
    sites = list(results_of(function, ctx)) if function is not None else []
    return bool(sites) and all(site is not None and _is_shown(site[1], site[0], steps, within=within) for site in sites)
