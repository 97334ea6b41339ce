"""Does an index list who chose one of several things, such as an expert? Nobody chooses the same thing twice."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.stands_for import results, stands_for
from detlint.linter.indices.positions import SAME_ELEMENTS
from detlint.linter.source.nodes import identifier, receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# What a router gives: as many different experts a row as it chooses.
_CHOSEN = re.compile(r"(^|_)(selected|chosen|topk|top_k|expert)_(\w+_)?(experts?|ids?|idx|index|indices)$")
_MAX_STEPS = 6
_VIEWS = frozenset(
    {"expand", "expand_as", "flatten", "long", "repeat", "reshape", "squeeze", "to", "unsqueeze", "view"}
)


def belongs_to_one_choice(index: ast.expr, ctx: Context) -> bool:
    """Does an index list who chose one of several things: `idx, rows = torch.where(one_hot(chosen)[expert])`?

    Nobody chooses the same thing twice, so no row stands in the list twice.
    """
    if _is_part_of_sorted_choices(index, ctx):
        return True
    index = _unmoved(index, ctx)
    found = results(index, ctx, _MAX_STEPS) if isinstance(index, ast.Name) else []
    return bool(found) and all(_lists_choosers(*each) for each in found)


def _lists_choosers(made: ast.expr, ctx: Context, place: tuple[int, ...]) -> bool:
    """Is it one of the lists that `torch.where(mask)` gives, of a mask that marks who chose one of several things?"""
    mask = _mask_of(made, ctx) if len(place) == 1 and isinstance(made, ast.Call) else None
    if mask is None or not _marks_choices(mask, ctx):
        return False
    # Of `chosen == expert` as it is, rows come first: at which place of its row one chose, many do.
    return not isinstance(mask, ast.Compare) or place == (0,)


def _mask_of(call: ast.Call, ctx: Context) -> ast.expr | None:
    """Return the mask whose places `torch.where(mask)` or `mask.nonzero(as_tuple=True)` lists, a list a dimension."""
    names = ctx.callees(call)
    if "torch.where" in names:
        return call.args[0] if len(call.args) == 1 else None
    in_lists = any(word.arg == "as_tuple" and ctx.constant(word.value) is True for word in call.keywords)
    if identifier(call.func) != "nonzero" or not in_lists:
        return None
    if "torch.nonzero" in names:
        return call.args[0] if call.args else None
    return receiver_of(call)


def _is_part_of_sorted_choices(index: ast.expr, ctx: Context) -> bool:
    """`rows = chosen.flatten().argsort() // k`, and of them `rows[start:end]`: those who chose one of the things."""
    part, divided = False, False
    for _ in range(2 * _MAX_STEPS):
        before = stands_for(index, ctx)
        if len(before) == 1 and not before[0].place:
            index, ctx, _ = before[0]
        elif isinstance(index, ast.Subscript) and isinstance(index.slice, ast.Slice):
            part = index.slice.lower is not None and index.slice.upper is not None
            index = index.value
        elif isinstance(index, ast.BinOp) and isinstance(index.op, ast.FloorDiv):
            divided = True
            index = index.left
        elif not isinstance(index, ast.Call) or not isinstance(index.func, ast.Attribute):
            return False
        elif index.func.attr in _VIEWS:
            index = index.func.value
        else:
            return part and divided and identifier(index.func) == "argsort"
    return False


def _marks_choices(mask: ast.expr, ctx: Context) -> bool:
    """`one_hot(chosen).permute(2, 1, 0)[expert]`, `chosen == expert`, `mask[expert]` of a mask filled with these."""
    picked = False
    for _ in range(_MAX_STEPS):
        if isinstance(mask, ast.Subscript):
            mask, picked = mask.value, True
        elif isinstance(mask, ast.Name) and picked and (filled := _put_in_rows(mask, ctx)):
            return all(isinstance(value, ast.Compare) and _asks_who_chose(value) for value in filled)
        elif len(before := stands_for(mask, ctx)) == 1 and not before[0].place:
            mask, ctx, _ = before[0]
        elif isinstance(mask, ast.Compare):
            return _asks_who_chose(mask)
        elif isinstance(mask, ast.Call) and "torch.nn.functional.one_hot" in ctx.callees(mask):
            return picked
        elif isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute):
            mask = mask.func.value
        else:
            return False
    return False


def _put_in_rows(mask: ast.Name, ctx: Context) -> list[ast.expr]:
    """Return what `mask[expert] = (chosen == expert).T` fills a tensor with, views left out."""
    function = ctx.function(mask)
    values = (
        statement.value
        for statement in ctx.module.index.of_type(ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == mask.id
        if ctx.function(statement) is function
    )
    return [_viewed(value) for value in values]


def _viewed(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Call, ast.Attribute)):
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Attribute):
            break
        node = function.value
    return node


def _asks_who_chose(test: ast.Compare) -> bool:
    """`selected_experts == expert`, one of several that each row chose, going by the name."""
    alike = len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
    return alike and any(_CHOSEN.search(identifier(side)) for side in (test.left, *test.comparators))


def _unmoved(index: ast.expr, ctx: Context) -> ast.expr:
    """Return the `rows` that `rows.to(device)` was, that `rows = rows.long()` set anew, or that `rows[:100]` is of."""
    for _ in range(_MAX_STEPS):
        if isinstance(index, ast.Name):
            found = ctx.module.definitions(index)
            made = found[0].value if len(found) == 1 and not found[0].index else None
            moved = isinstance(made, ast.Call) and identifier(made.func) in SAME_ELEMENTS
            if made is None or not (moved or _is_slice(made)):
                return index
            index = made
        elif isinstance(index, ast.Subscript) and _is_slice(index):
            index = index.value
        elif not isinstance(index, ast.Call) or not isinstance(index.func, ast.Attribute):
            return index
        elif index.func.attr in SAME_ELEMENTS:
            index = index.func.value
        else:
            return index
    return index


def _is_slice(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
