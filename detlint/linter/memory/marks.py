"""Writes that leave places out: what masks or labels mark, one place of each row, pairs of coordinates."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from detlint.linter.analysis.values import Kind
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# With one number, these write what stands out; the rest is meant to be something else.
_MARKING = frozenset({"scatter_", "masked_fill_", "fill_diagonal_"})
# These write what a mask marks, whatever they are given.
_MASKED = frozenset({"masked_fill_", "masked_scatter_"})
_SMALL = (ast.Lt, ast.LtE)
_LARGE = (ast.Gt, ast.GtE)
# Pairs of these stand for all places of a matrix, or for one of its halves, which the other may complete.
_COMPLETE = frozenset({"triu_indices", "tril_indices", "meshgrid", "cartesian_prod", "combinations", "indices"})
_REDUCING = frozenset({"scatter_reduce_", "index_reduce_"})
_BEFORE_REDUCE = 3


def marks(call: ast.Call, ctx: Context) -> bool:
    """Return whether a method writes some places of the tensor that it belongs to and leaves the others."""
    name = identifier(call.func)
    if name in _MASKED:
        return True
    return name in _MARKING and (_is_number(call, ctx) or _is_at_largest(call, ctx) or _is_one_a_row(call))


def _is_number(call: ast.Call, ctx: Context) -> bool:
    """`one_hot.scatter_(1, labels, 1.0)`, `scatter_(1, labels, value=1 - smoothing)`: what is written is one number."""
    if any(word.arg == "value" for word in call.keywords):
        return True
    written = call.args[-1] if call.args else None
    return written is not None and all(value.kind in (Kind.NUMBER, Kind.BOOL) for value in ctx.values(written))


def _is_at_largest(call: ast.Call, ctx: Context) -> bool:
    """`kept.scatter_(-1, places, values)` after `values, places = x.topk(k)`."""
    index = call.args[1] if len(call.args) > 1 else None
    made = [binding.value for binding in ctx.module.definitions(index)] if isinstance(index, ast.Name) else []
    return bool(made) and all(isinstance(value, ast.Call) and identifier(value.func) == "topk" for value in made)


def _is_one_a_row(call: ast.Call) -> bool:
    """`target.scatter_(1, labels.unsqueeze(1), values)`: the index has one entry along what it picks from."""
    along, index = call.args[:2] if len(call.args) > 2 else (None, None)
    if not isinstance(index, ast.Call) or identifier(index.func) != "unsqueeze" or len(index.args) != 1:
        return False
    # The last dimension goes by two names; the first one of several is never the last.
    added = ast.unparse(index.args[0])
    return along is not None and (added == ast.unparse(along) or (added == "-1" and ast.unparse(along) != "0"))


def write_one_number(places: Sequence[ast.Subscript], ctx: Context) -> bool:
    """`mask[rows, labels] = 1`, `kept[start:end] = True`: the same number at each write."""
    statements = [ctx.parent(place) for place in places]
    values = [statement.value if isinstance(statement, ast.Assign) else None for statement in statements]
    numbers = {ast.unparse(value) if value is not None and is_number(value) else "" for value in values}
    return len(numbers) == 1 and "" not in numbers


def name_some(places: Sequence[ast.Subscript], rounds: Iterable[ast.AST]) -> bool:
    """Do indices leave places out, whatever the names may stand for that change in the rounds of loops?"""
    names = (part for loop in rounds for part in walk(loop) if isinstance(part, ast.Name))
    changing = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return all(_names_some(place, changing) for place in places)


def is_number(value: ast.expr) -> bool:
    """`1`, `-1.0`, `float("-inf")`."""
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    elif isinstance(value, ast.Call) and identifier(value.func) == "float" and len(value.args) == 1:
        value = value.args[0]
    return isinstance(value, ast.Constant) and value.value is not None


def _names_some(place: ast.Subscript, changing: Collection[str]) -> bool:
    parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
    named = ((part, {name.id for name in walk(part) if isinstance(name, ast.Name)}) for part in parts)
    return any(_is_some(part) and names.isdisjoint(changing) for part, names in named)


def _is_some(part: ast.expr) -> bool:
    """Not `:`, `...`, `None`, `arange(n)`; a slice with one end written out, `1:`, and any other index."""
    if isinstance(part, ast.Slice):
        return isinstance(part.lower, (ast.Constant, ast.UnaryOp, ast.Name)) and not _starts_at_zero(part)
    if isinstance(part, ast.Constant):
        return isinstance(part.value, int) and not isinstance(part.value, bool)
    return not (isinstance(part, ast.Call) and identifier(part.func) in ("arange", "range", "slice"))


def _starts_at_zero(part: ast.Slice) -> bool:
    return isinstance(part.lower, ast.Constant) and part.lower.value == 0


def are_coordinates(places: ast.expr, ctx: Context) -> bool:
    """`scores[nodes[:, 0], nodes[:, 1]]`, `weights[row, col]` after `row, col = edge_index`: a list of some places."""
    elements = places.elts if isinstance(places, (ast.Tuple, ast.List)) else []
    held = {_pairs(element, ctx) for element in elements}
    return len(elements) > 1 and len(held) == 1 and "" not in held


def _pairs(element: ast.expr, ctx: Context) -> str:
    """Return the text of what an index is a row or a column of, with a number: `nodes` of `nodes[:, 0]`."""
    value = None
    if isinstance(element, ast.Name):
        bindings = ctx.module.definitions(element)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].index else None
    elif isinstance(element, ast.Subscript) and _picks_one(element.slice):
        value = element.value
    if value is None:
        return ""
    made = [binding.value for binding in ctx.module.definitions(value)] if isinstance(value, ast.Name) else [value]
    complete = any(isinstance(call, ast.Call) and identifier(call.func) in _COMPLETE for call in made)
    return "" if complete else ast.unparse(value)


def _picks_one(part: ast.expr) -> bool:
    """`[0]` and `[:, 0]`."""
    parts = part.elts if isinstance(part, ast.Tuple) else [part]
    whole = all(isinstance(each, ast.Slice) and each.lower is None and each.upper is None for each in parts[:-1])
    return whole and isinstance(parts[-1], ast.Constant) and isinstance(parts[-1].value, int)


def leave_out_beyond(places: Sequence[ast.expr], ctx: Context) -> bool:
    """`d <= low` and `(d > low) & (d <= high)`: no mask holds where `d` is larger still.

    A bound that is written out may be the limit of what there is, as one is of probabilities.
    """
    bounds = [_bounds(place, ctx) for place in places]
    return len(bounds) > 1 and bool(frozenset.intersection(*bounds))


def _bounds(mask: ast.expr, ctx: Context) -> frozenset[tuple[str, bool]]:
    """Return what a mask asks to be small (False) or large (True), by its text."""
    if isinstance(mask, ast.Name):
        bindings = ctx.module.definitions(mask)
        made = bindings[0].value if len(bindings) == 1 and not bindings[0].index else None
        return _bounds(made, ctx) if isinstance(made, (ast.BinOp, ast.Compare)) else frozenset()
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
        return _bounds(mask.left, ctx) | _bounds(mask.right, ctx)
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1 or not isinstance(mask.ops[0], (*_SMALL, *_LARGE)):
        return frozenset()
    left, right = mask.left, mask.comparators[0]
    if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
        return frozenset()
    large = isinstance(mask.ops[0], _LARGE)
    return frozenset({(ast.unparse(left), large), (ast.unparse(right), not large)})


def adds_up(call: ast.Call) -> bool:
    """`memory.scatter_(0, rows, 1, reduce="add")`, `memory.index_put_(…, accumulate=True)`: to what is there."""
    values = {keyword.arg: getattr(keyword.value, "value", None) for keyword in call.keywords}
    if identifier(call.func) in _REDUCING and len(call.args) > _BEFORE_REDUCE:
        values["reduce"] = "as said by place"
    return values.get("accumulate") is True or (
        values.get("reduce") is not None and values.get("include_self") is not False
    )
