"""Has an index one element along the dimension that it runs along? Then no two of its elements meet in one place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.analysis.values import Kind
from detlint.linter.indices.positions import TENSORS
from detlint.linter.indices.rearranging import axes
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import arguments_of, identifier
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 6
_SWAPPED = 2  # dimensions, by `transpose`
_SAME_SHAPE = ("long", "int", "to", "type", "clamp", "clamp_min", "contiguous", "masked_fill")
_SPREADING = ("unsqueeze", "expand", "expand_as", "repeat")
_RESHAPING = ("flatten", "unsqueeze", "squeeze", "cuda", "cpu")
_ELEMENTWISE = TENSORS | {"torch.where"}
# Their result is as long along their dimension as their index.
_AS_LONG_AS_INDEX = ("gather", "index_select", "take_along_dim")
# What makes a tensor of one number where that is what they are given; to others it is a size.
_OF_DATA = frozenset({"torch.as_tensor", "torch.tensor"})
_FILLED = ("full", "zeros", "ones")
_LIKE = ("zeros_like", "ones_like", "full_like")


class SingleElements:
    """Follows the shape of an index backwards, as far as it matters to one dimension.

    `dim` is the expression that names the dimension, and `number` the one that it is known to be.
    """

    def __init__(self, dim: ast.expr, number: object, ctx: Context) -> None:
        self._ctx = ctx
        self._dim = dim
        self._number = number

    def of(self, index: ast.expr) -> bool:
        """Return whether the index is known to have one element along the dimension."""
        number = self._number
        return (isinstance(number, int) and self._has_one(index, number, _MAX_STEPS)) or self._is_inserted(index)

    def _is_inserted(self, index: ast.expr) -> bool:
        """`label.unsqueeze(dim)`, where nobody knows which dimension that is."""
        return (
            isinstance(index, ast.Call)
            and isinstance(index.func, ast.Attribute)
            and index.func.attr == "unsqueeze"
            and [ast.dump(argument) for argument in index.args] == [ast.dump(self._dim)]
        )

    def _has_one(self, index: ast.expr, dim: int, steps: int) -> bool:
        """Has the tensor one element along `dim`, counted from the front, or from the end if negative?"""
        return steps > 0 and (self._is_made_one(index, dim, steps) or self._stands_for_one(index, dim, steps // 2))

    def _stands_for_one(self, index: ast.expr, dim: int, steps: int) -> bool:
        """`drawn = draw(weights)` of a helper, `self.drawn`, a parameter that all callers pass such a tensor for."""
        before = stands_for(index, self._ctx)
        return bool(before) and all(
            self._keeps_one(made, dim) if place else SingleElements(self._dim, dim, inside)._has_one(made, dim, steps)
            for made, inside, place in before
        )

    def _is_made_one(self, index: ast.expr, dim: int, steps: int) -> bool:
        if isinstance(index, ast.Name):
            found = self._ctx.module.definitions(index)
            assigned = (b for b in found if b.kind is BindingKind.ASSIGN and b.value is not None)
            known = [b.value for b in assigned if not b.index or self._keeps_one(b.value, dim)]
            return bool(known) and all(value is not None and self._has_one(value, dim, steps - 1) for value in known)
        if isinstance(index, (ast.Attribute, ast.Subscript)) and self._keeps_one(index.value, dim):
            return True  # `scores.max(dim=1, keepdim=True).indices`
        if isinstance(index, ast.Subscript) and isinstance(index.slice, ast.Tuple):
            return self._is_picked(index.slice.elts, dim)
        if isinstance(index, ast.Subscript) and dim < 0 and not isinstance(index.slice, ast.Slice):
            return self._has_one(index.value, dim, steps)  # one of the first dimension: the last ones stay
        if isinstance(index, ast.BinOp) and isinstance(index.right, ast.Constant):
            return self._has_one(index.left, dim, steps)  # a number more or less in each element
        rearranged = axes(index, self._ctx)
        if rearranged is not None:
            return _is_one(rearranged, dim)
        if not isinstance(index, ast.Call) or not isinstance(index.func, ast.Attribute):
            return False
        return self._call_has_one(index, index.func, dim, steps)

    def _is_picked(self, items: list[ast.expr], dim: int) -> bool:
        """`label[:, None]`, `start[:, None, None]`, `hidden[..., :1, :]`."""
        item = items[dim] if -len(items) <= dim < len(items) else None
        if isinstance(item, ast.Constant) and item.value is None:
            return True
        sliced = isinstance(item, ast.Slice) and item.lower is None and self._ctx.constant(item.upper) == 1
        if dim >= 0:
            return sliced and all(isinstance(each, ast.Slice) for each in items[:dim])  # actions[:, :1]
        from_end = any(isinstance(each, ast.Constant) and each.value is ... for each in items)
        return from_end and sliced

    def _call_has_one(self, call: ast.Call, function: ast.Attribute, dim: int, steps: int) -> bool:
        called = self._ctx.callees(call)
        if _ELEMENTWISE.intersection(called):  # torch.where(stopped, last, sampled), torch.from_numpy(actions)
            return all(self._has_one(part, dim, steps - 1) for part in call.args)
        if function.attr in _SAME_SHAPE:
            return self._has_one(function.value, dim, steps)
        if function.attr in _LIKE and call.args:
            return self._has_one(call.args[0], dim, steps)
        if function.attr == "unsqueeze" and len(call.args) == 1:
            place = self._ctx.constant(call.args[0])
            if place == dim or (place == -1 and dim >= 0):
                return True
            if (place, dim) == (1, -1):
                return True  # class numbers beside rows of scores: nobody writes this for more dimensions
            if isinstance(place, int) and place >= 0 and dim >= 0:
                return self._has_one(function.value, dim - (place < dim), steps)
            # Counted from the end, what stands before an inserted last dimension moves one on.
            return place == -1 and self._has_one(function.value, dim + 1, steps)
        if function.attr == "multinomial":
            return self._draws_once(call, function, dim)
        sizes = _sizes(call)
        if function.attr in ("permute", "transpose"):
            source = self._before_turned(sizes, function.attr, dim)
            return source is not None and self._has_one(function.value, source, steps)
        if function.attr in ("view", "reshape"):
            return self._is_sized_one(sizes, dim)
        if function.attr in ("expand", "repeat"):
            return self._stays_one(call, function, sizes, dim, steps)
        return self._keeps_one(call, dim)

    def _draws_once(self, call: ast.Call, function: ast.Attribute, dim: int) -> bool:
        """`torch.multinomial(weights, 1)`, `weights.multinomial(1)`: one draw a row."""
        place = 1 if "torch.multinomial" in self._ctx.callees(call) else 0
        named = [keyword.value for keyword in call.keywords if keyword.arg == "num_samples"]
        draws = next(iter([*named, *call.args[place : place + 1]]), None)
        return draws is not None and self._ctx.constant(draws) == 1 and dim in (-1, 1)

    def _before_turned(self, order: list[ast.expr], method: str, dim: int) -> int | None:
        """Return where the dimension was before `permute(0, 2, 1)` or `transpose(1, 2)`, counted from the same side."""
        places = [place for place in map(self._ctx.constant, order) if type(place) is int]
        if len(places) != len(order) or len({place < 0 for place in places}) != 1:
            return None
        if method == "permute":
            place = places[dim] if -len(places) <= dim < len(places) else None
            if place is None or (place < 0) is (dim < 0):
                return place
            return place - len(places) if dim < 0 else place + len(places)
        if len(places) != _SWAPPED or (places[0] < 0) is not (dim < 0):
            return None
        return next((other for one, other in (places, places[::-1]) if one == dim), dim)

    def _keeps_one(self, node: ast.expr | None, dim: int) -> bool:
        """`scores.max(dim=-1, keepdim=True)`: the dimension is left, with one element, unless another one is."""
        if not isinstance(node, ast.Call) or not _keeps_dimension(node):
            return False
        given = [*(keyword.value for keyword in node.keywords if keyword.arg == "dim"), *node.args]
        named = next((place for place in map(self._ctx.constant, given) if type(place) is int), dim)
        return named == dim or (named < 0) is not (dim < 0)

    def _is_sized_one(self, sizes: list[ast.expr], dim: int) -> bool:
        """`rows.view(*rows.size(), 1, 1)`: sizes are counted from the side on which none are starred."""
        if not -len(sizes) <= dim < len(sizes):
            return False
        before = sizes[dim:] if dim < 0 else sizes[:dim]
        return self._ctx.constant(sizes[dim]) == 1 and not any(isinstance(size, ast.Starred) for size in before)

    def _stays_one(self, call: ast.Call, function: ast.Attribute, sizes: list[ast.expr], dim: int, steps: int) -> bool:
        """`index.expand(-1, 1, hidden)`: is the dimension left as it is, and had one element before?"""
        place = dim if dim < 0 else dim - len(sizes)
        if -len(sizes) <= place < 0:
            size = self._ctx.constant(sizes[place])
            if size == 1 and function.attr == "expand":
                return True
            if size != (1 if function.attr == "repeat" else -1):
                return False
            # Where the first dimension is left as it is, there were as many before.
            from_front = self._ctx.constant(sizes[0]) == -1 and self._is_inserted_from_front(function.value)
            return self._has_one(function.value, place + len(sizes) if from_front else place, steps)
        return dim < 0 and self._leaves_alone(call) and self._has_one(function.value, dim, steps)

    def _is_inserted_from_front(self, index: ast.expr) -> bool:
        """`heads.unsqueeze(2)`: is a dimension inserted at a place that is counted from the front?"""
        if not isinstance(index, ast.Call) or not isinstance(index.func, ast.Attribute) or len(index.args) != 1:
            return False
        place = self._ctx.constant(index.args[0])
        return index.func.attr == "unsqueeze" and isinstance(place, int) and place >= 0

    def _leaves_alone(self, call: ast.Call) -> bool:
        """`expand((-1,) * n + (hidden,))`: all dimensions but the last ones."""
        sizes = call.args[0] if len(call.args) == 1 else None
        repeated = sizes.left if isinstance(sizes, ast.BinOp) else None
        one = repeated.left if isinstance(repeated, ast.BinOp) and isinstance(repeated.op, ast.Mult) else None
        return isinstance(one, ast.Tuple) and all(self._ctx.constant(size) == -1 for size in one.elts)


def is_taken_away(gathered: ast.Call, dim: ast.expr, ctx: Context) -> bool:
    """`x.gather(0, index).squeeze(0)`: who takes the dimension away knows that the index has one element along it.

    Of operators whose result is as long along the dimension as their index.
    """
    method = ctx.parent(gathered)
    call = ctx.parent(method) if isinstance(method, ast.Attribute) and method.attr == "squeeze" else None
    if identifier(gathered.func) not in _AS_LONG_AS_INDEX or not isinstance(call, ast.Call):
        return False
    taken = next(iter(arguments_of(call)), None)
    if taken is None:
        return False
    place = ctx.constant(dim)
    return ast.dump(taken) == ast.dump(dim) or (type(place) is int and ctx.constant(taken) == place)


def is_one_number(index: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Has the index one element in all: `torch.full((1,), place)`, `torch.tensor(place)`, one that `.item()` reads?"""
    if steps == 0:
        return False
    if isinstance(index, ast.Name):
        found = ctx.module.definitions(index)
        made = [b.value for b in found if b.kind is BindingKind.ASSIGN and not b.index and b.value is not None]
        if len(made) == len(found) > 0 and all(is_one_number(value, ctx, steps - 1) for value in made):
            return True
    if isinstance(index, (ast.Name, ast.Attribute)) and _is_read_as_number(index, ctx):
        return True
    if isinstance(index, ast.BinOp) and isinstance(index.right, ast.Constant):
        return is_one_number(index.left, ctx, steps - 1)
    if (
        isinstance(index, ast.Call)
        and isinstance(index.func, ast.Attribute)
        and _makes_one(index, index.func, ctx, steps)
    ):
        return True
    before = stands_for(index, ctx)
    return bool(before) and all(not each.place and is_one_number(each.node, each.ctx, steps // 2) for each in before)


def _makes_one(call: ast.Call, function: ast.Attribute, ctx: Context, steps: int) -> bool:
    last = function.attr.removeprefix("new_")
    if function.attr == "new_tensor" or not _OF_DATA.isdisjoint(ctx.callees(call)):
        return bool(call.args) and ctx.is_kind(call.args[0], Kind.NUMBER) is Truth.YES
    if last in _FILLED and (function.attr != last or any(name.startswith("torch.") for name in ctx.callees(call))):
        named = [keyword.value for keyword in call.keywords if keyword.arg == "size"]
        sizes = named or call.args[:1] if last == "full" else named or call.args
        flat = [
            size for given in sizes for size in (given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given])
        ]
        return bool(flat) and all(ctx.constant(size) == 1 for size in flat)
    if last in ("view", "reshape"):
        return bool(call.args) and all(ctx.constant(size) == 1 for size in _sizes(call))
    return function.attr in (*_SAME_SHAPE, *_RESHAPING) and is_one_number(function.value, ctx, steps - 1)


def _is_read_as_number(index: ast.Name | ast.Attribute, ctx: Context) -> bool:
    """Is the same tensor read as a single number in its function, `index.item()`, which no other has?"""
    around, written = ctx.function(index), ast.unparse(index)
    return around is not None and any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == written
        for call in ctx.module.index.calls_by_name.get("item", ())
        if ctx.function(call) is around
    )


def _is_one(axes: list[str], dim: int) -> bool:
    """`rearrange(label, "... n -> ... n 1")`: axes are counted from the side that is spelled out."""
    if not -len(axes) <= dim < len(axes) or "..." in (axes[:dim] if dim >= 0 else axes[dim:]):
        return False
    return axes[dim] == "1"


def names_choice(index: ast.expr) -> bool:
    """Is the index one number a row by its name, as it comes, or the best of each row, however it was spread?

    `q_values.gather(1, actions.long())`, `boxes.gather(1, topk_ids.unsqueeze(-1).repeat(1, 1, 4))`.
    """
    table = gradient_table()
    spread = False
    while isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
        if index.func.attr not in (*_SAME_SHAPE, *_SPREADING):
            return False
        spread = spread or index.func.attr in _SPREADING
        index = index.func.value
    name = index.id if isinstance(index, ast.Name) else index.attr if isinstance(index, ast.Attribute) else ""
    return table.bests.search(name) is not None or (not spread and table.choices.search(name) is not None)


def _keeps_dimension(call: ast.Call) -> bool:
    return any(k.arg == "keepdim" and getattr(k.value, "value", None) is True for k in call.keywords)


def _sizes(call: ast.Call) -> list[ast.expr]:
    """Return the sizes that a call names: all, or the last ones of a sum of tuples."""
    if len(call.args) != 1:
        return call.args
    only = call.args[0]
    if isinstance(only, ast.BinOp) and isinstance(only.op, ast.Add):
        only = only.right
    return only.elts if isinstance(only, (ast.Tuple, ast.List)) else call.args
