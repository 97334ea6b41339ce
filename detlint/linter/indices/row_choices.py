"""Does an index name what was chosen in each row: `scores.topk(k, dim=1).indices`, spread over further dimensions?

No row chooses a place twice. Nothing is asked of the scores, which may come from out of sight. Places in a row, from
wherever that one begins, are such a choice too: `start[:, None] + torch.arange(n)`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.kept_values import entries_under, kept_under
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.analysis.values import Kind
from detlint.linter.indices.positions import SAME_ELEMENTS, WRAPPERS
from detlint.linter.indices.written_shapes import is_flat, sizes_written, written_shape
from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 12

# What gives places, along a dimension that comes after so many other arguments; of pairs, the second. What is drawn
# stands in the last one, and in that argument's place it says whether places are put back.
_DRAWING = "multinomial"
_CHOOSING = {"argsort": 0, "sort": 0, "topk": 1, _DRAWING: 1}
_PAIRS = frozenset({"sort", "topk"})
_ORDERING = (ast.Add, ast.Sub)
_FLATTENING = frozenset({"flatten", "ravel", "reshape", "view"})
# Operators whose index has one dimension.
_FLAT_INDEX = "index_"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the way back to a choice came through: along which dimension places are named, of how many.

    `along` is None for an index with one dimension; `merged` are rows that were made into one, `parted` those of which
    one was made into rows. `width` is the size that this dimension was expanded to, which has to be its own.
    """

    along: int | None
    rank: int | None = None
    merged: bool = False
    parted: bool = False
    width: str = ""
    steps: int = _MAX_STEPS


def chooses_in_rows(index: ast.expr, operator: str, dim: object, ctx: Context) -> bool:
    """Return whether no row of an index names a place twice, along the dimension `dim` of what the operator works on.

    `rows * width + chosen` names places of all rows in one.
    """
    if operator.rpartition(".")[2].startswith(_FLAT_INDEX):
        return _is_chosen(index, _Seen(None), ctx)
    return type(dim) is int and _is_chosen(index, _Seen(dim), ctx)


def _is_chosen(node: ast.expr, seen: _Seen, ctx: Context) -> bool:
    if seen.steps == 0:
        return False
    seen = replace(seen, steps=seen.steps - 1)
    return _is_made_so(node, seen, ctx) or _stands_for_chosen(node, replace(seen, steps=seen.steps // 2), ctx)


def _stands_for_chosen(node: ast.expr, seen: _Seen, ctx: Context) -> bool:
    """`_, chosen = best(scores)` of a helper, and a parameter for which all callers pass what was chosen."""
    before = stands_for(node, ctx)
    return bool(before) and all(
        _is_choice(made, seen, inside, pairs=True) if place == (1,) else not place and _is_chosen(made, seen, inside)
        for made, inside, place in before
    )


def _is_made_so(node: ast.expr, seen: _Seen, ctx: Context) -> bool:
    if isinstance(node, ast.Name):
        return _is_name_chosen(node, seen, ctx)
    if isinstance(node, ast.Attribute):
        if node.attr == "indices" and _is_choice(node.value, seen, ctx, pairs=True):
            return True
        return _are_chosen(kept_under(node, ctx), seen, ctx)
    if isinstance(node, ast.Subscript):
        entries = entries_under(node.value, ctx) if isinstance(node.value, ast.Attribute) else []
        if entries:
            return _are_chosen(entries, seen, ctx)
        if ctx.constant(node.slice) == 1:
            return _is_choice(node.value, seen, ctx, pairs=True)
        inside = _sliced(node.slice, seen)
        return inside is not None and _is_chosen(node.value, inside, ctx)
    if isinstance(node, ast.BinOp):
        return _is_sum_chosen(node, seen, ctx)
    if _is_choice(node, seen, ctx, pairs=False) or _counts_along(node, seen, ctx):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.args and not WRAPPERS.isdisjoint(ctx.callees(node)):
        return _is_chosen(node.args[0], seen, ctx)
    viewed = _viewed(node, node.func.attr, seen, ctx)
    return viewed is not None and _is_chosen(node.func.value, viewed, ctx)


def _are_chosen(kept: list[ast.expr], seen: _Seen, ctx: Context) -> bool:
    return bool(kept) and all(_is_chosen(value, seen, ctx) for value in kept)


def _counts_along(node: ast.expr, seen: _Seen, ctx: Context) -> bool:
    """Is it `torch.arange(n)`, whose only dimension is the one that places are named along?"""
    if not isinstance(node, ast.Call) or "torch.arange" not in ctx.callees(node) or seen.merged:
        return False
    return _has_width(node, seen) and (seen.along is None or _is_same(-1, seen.along, seen.rank))


def _has_width(made: ast.Call, seen: _Seen) -> bool:
    """`torch.arange(n)[:, None].expand(n, m)`: is the size that a dimension was expanded to the one that it had?"""
    given = [*made.args, *(word.value for word in made.keywords)]
    return not seen.width or any(ast.unparse(part) == seen.width for each in given for part in walk(each))


def _is_name_chosen(name: ast.Name, seen: _Seen, ctx: Context) -> bool:
    """Is each value of a variable: `idx = scores.argsort(1)`, `_, idx = scores.sort(1)`?"""
    found = ctx.module.definitions(name)
    for binding in found:
        if binding.kind is not BindingKind.ASSIGN or binding.value is None:
            return False
        if binding.index == (1,) and isinstance(binding.value, ast.Call):
            if not _is_choice(binding.value, seen, ctx, pairs=True):
                return False
        else:
            made = unpacked(binding)
            if made is None or not _is_chosen(made, seen, ctx):
                return False
    return bool(found)


def _is_sum_chosen(node: ast.BinOp, seen: _Seen, ctx: Context) -> bool:
    """`chosen + 1`; `chosen + rows * width`, with the numbers of the rows in a column, sets rows apart."""
    if not isinstance(node.op, _ORDERING):
        return False
    for chosen, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(ctx.constant(other), int) or ctx.is_kind(other, Kind.NUMBER) is Truth.YES:
            return _is_chosen(chosen, seen, ctx)
        beside = _beside(other, seen, ctx)
        if beside is not None and _is_chosen(chosen, beside, ctx):
            return True
        if isinstance(node.op, ast.Add) and _sets_apart(other, ctx):
            return _is_chosen(chosen, replace(seen, along=1, rank=2, merged=False), ctx)
    return False


def _beside(offsets: ast.expr, seen: _Seen, ctx: Context) -> _Seen | None:
    """Return what is known beside a tensor with a single element along the dimension: `start[:, None]`."""
    shape = written_shape(offsets, ctx)
    if seen.along is None or len(shape) < 2 or seen.rank not in (None, len(shape)):
        return None
    if not -len(shape) <= seen.along < len(shape) or shape[seen.along] != 1:
        return None
    return replace(seen, along=seen.along % len(shape), rank=len(shape))


def _sets_apart(offsets: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`torch.arange(n)[:, None] * width`, in any order: a multiple for each row."""
    before = stands_for(offsets, ctx) if steps else []
    if before:
        return all(not each.place and _sets_apart(each.node, each.ctx, steps // 2) for each in before)
    if isinstance(offsets, ast.BinOp) and isinstance(offsets.op, ast.Mult):
        return any(_is_column(side, ctx) for side in (offsets.left, offsets.right))
    if not _is_view(offsets, ("unsqueeze", "view", "reshape")) or not _has_column_shape(offsets, ctx):
        return False
    inner = offsets.func.value if isinstance(offsets, ast.Call) and isinstance(offsets.func, ast.Attribute) else offsets
    return isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult) and _counts(inner.left, inner.right, ctx)


def _counts(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    return any(isinstance(side, ast.Call) and "torch.arange" in ctx.callees(side) for side in (left, right))


def _is_column(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`torch.arange(n).unsqueeze(-1)`, `torch.arange(n).view(-1, 1)`, `torch.arange(n)[:, None]`, also by name."""
    before = stands_for(node, ctx) if steps else []
    if before:
        return all(not each.place and _is_column(each.node, each.ctx, steps // 2) for each in before)
    if not _has_column_shape(node, ctx):
        return False
    inner = node.value if isinstance(node, ast.Subscript) else getattr(getattr(node, "func", None), "value", None)
    while _is_view(inner, tuple(SAME_ELEMENTS)):
        inner = inner.func.value  # type: ignore[union-attr]
    return isinstance(inner, ast.Call) and "torch.arange" in ctx.callees(inner)


def _is_view(node: ast.expr | None, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def _has_column_shape(node: ast.expr, ctx: Context) -> bool:
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        return [isinstance(item, ast.Slice) for item in items] == [True, False] and ctx.constant(items[1]) is None
    if not isinstance(node, ast.Call):
        return False
    sizes = [ctx.constant(size) for size in sizes_written(node)]
    last = identifier(node.func)
    return (last == "unsqueeze" and sizes in ([1], [-1])) or (last in _FLATTENING and len(sizes) == 2 and sizes[1] == 1)


def _sliced(places: ast.expr, seen: _Seen) -> _Seen | None:
    """Return what is known of `idx` in `idx[:, :k]`, `idx[..., None]`; nothing where one of several is picked."""
    items = places.elts if isinstance(places, ast.Tuple) else [places]
    ellipsis = next((at for at, item in enumerate(items) if getattr(item, "value", None) is ...), len(items))
    written = len(items) if isinstance(places, ast.Tuple) and ellipsis == len(items) else None
    found: _Seen | None = replace(seen, rank=seen.rank or written)
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if isinstance(item, ast.Slice) or at == ellipsis:
            continue
        if not isinstance(item, ast.Constant) or item.value is not None or found is None:
            return None
        found = _without(at if at < ellipsis else at - len(items), found)
    return found


def _without(place: int, seen: _Seen) -> _Seen | None:
    """Return what is known of a tensor before a dimension was inserted at a place."""
    along, rank = seen.along, seen.rank
    if along is None:
        return None
    if place < 0 and rank is not None:
        place += rank
    if (place < 0) is not (along < 0):
        # The last dimension comes after one that is counted from the front; of others nothing is known.
        return replace(seen, rank=None) if place == -1 and along > 0 else None
    if place == along:
        return None
    moved = along + 1 if along < 0 and place > along else along - 1 if 0 <= place < along else along
    return replace(seen, along=moved, rank=None if rank is None else rank - 1)


def _viewed(view: ast.Call, name: str, seen: _Seen, ctx: Context) -> _Seen | None:
    """Return what is known of the tensor that a view was made of; None if places may stand there more than once."""
    sizes = sizes_written(view)
    if name in SAME_ELEMENTS or name == "expand_as":
        return seen
    if name == "unsqueeze" and len(sizes) == 1:
        place = ctx.constant(sizes[0])
        return _without(place, seen) if type(place) is int else None
    if name in _FLATTENING and [ctx.constant(size) for size in sizes] in ([], [-1]):
        return replace(seen, merged=not seen.parted, parted=False)
    if name in ("view", "reshape") and len(sizes) == 2 and seen.rank == 2 and -1 not in map(ctx.constant, sizes):
        return replace(seen, parted=True)
    if name not in ("expand", "repeat") or seen.along is None or any(isinstance(size, ast.Starred) for size in sizes):
        return None
    along = seen.along + len(sizes) if seen.along < 0 else seen.along
    if not 0 <= along < len(sizes):
        return None
    width = "" if ctx.constant(sizes[along]) == (-1 if name == "expand" else 1) else ast.unparse(sizes[along])
    if width and (name == "repeat" or seen.width):
        return None
    return replace(seen, along=along, rank=len(sizes), width=width or seen.width)


def _is_choice(node: ast.expr, seen: _Seen, ctx: Context, *, pairs: bool) -> bool:
    """Is it `scores.topk(k, dim=1)`, or a name for that, along the same dimension?"""
    if seen.steps == 0:
        return False
    before = stands_for(node, ctx)
    if before:
        nearer = replace(seen, steps=seen.steps // 2)
        return all(not each.place and _is_choice(each.node, nearer, each.ctx, pairs=pairs) for each in before)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or seen.merged:
        return False
    name = node.func.attr
    if name not in _CHOOSING or (name in _PAIRS) is not pairs:
        return False
    skipped = identifier(node.func.value) == "torch"
    word = "replacement" if name == _DRAWING else "dim"
    placed = node.args[_CHOOSING[name] + skipped :]
    told = next((keyword.value for keyword in node.keywords if keyword.arg == word), next(iter(placed), None))
    if not _has_width(node, seen) or (name == _DRAWING and told is not None and ctx.constant(told) is not False):
        return False
    dim = -1 if told is None or name == _DRAWING else ctx.constant(told)
    scores = node.args[0] if skipped and node.args else node.func.value
    if seen.rank is None and is_flat(scores, ctx):
        seen = replace(seen, rank=1)
    return seen.along is None or (type(dim) is int and _is_same(dim, seen.along, seen.rank))


def _is_same(dim: int, along: int, rank: int | None) -> bool:
    """Do two numbers mean one dimension? Scores of which nothing else is known have rows and columns."""
    size = rank if rank is not None else 2
    if (dim < 0) is (along < 0):
        return dim == along
    return -size <= min(dim, along) and max(dim, along) < size and dim % size == along % size
