"""Is fresh memory written in some places only, so that the rest of it stays what it was?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.memory.addresses import is_address
from detlint.linter.memory.columns import fills_columns, is_everything, leaves_columns, skips_columns
from detlint.linter.memory.marks import are_coordinates, leave_out_beyond, name_some, write_one_number
from detlint.linter.memory.padding import leaves_padding, sizes_of, without_single_columns
from detlint.linter.memory.rounds import (
    drops_the_last_batch,
    ends_before_the_data,
    keeps_to_the_diagonal,
    leaves_beginning,
    leaves_gaps,
    leaves_out_rounds,
    marks_what_data_say,
    passes_over,
)
from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.names import COMPREHENSIONS, LOOPS, Binding, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

_Loop = ast.For | ast.AsyncFor | ast.While
# What tells which part of the memory is in use, where it goes along with it.
_EXTENTS = re.compile(
    r"(^|_)(masks?|valid|len|lens|lengths?|size|sizes|num|n|count|counts|keep|used|end|index|indices|idx|ids|offsets?)(_|$|\d)"
)
# The same in a dictionary, where `ids` are what goes along with them.
_EXTENTS_OF_ENTRIES = re.compile(r"(^|_)(masks?|valid|lens?|lengths?|nums?|counts?|sizes?)(_|$)")
# Names of an index that leaves places out: `valid_idx`, `kept_rows`. Beside `pos_inds` the negatives often have no
# weight.
_CHOSEN = re.compile(
    r"mask|(^|_)(valid|active|firing|kept|keep|selected|chosen|matched|sampled|pred)"
    r"_?(inds?|idxs?|index|indexes|indices|ids|rows|places|positions|locs?)(_|$)",
    re.IGNORECASE,
)
_JOINING = frozenset({"cat", "concat", "concatenate", "hstack"})
_TAKE_PARTS = frozenset({"diag", "diagonal", "trace", "tril", "triu"})


def only_in_part(writes: Sequence[ast.Name | ast.Attribute], target: ast.AST, made: ast.expr, ctx: Context) -> bool:
    """Return whether all writes there are leave something out: one mask, one slice, some rounds, some columns."""
    if len(writes) == 1 and fate(writes[0], ctx)[0] is Fate.MARKED:
        return True
    places = [place for write in writes if isinstance(place := ctx.parent(write), ast.Subscript)]
    if not places or len(places) < len(writes):
        return False
    rounds = {place: list(rounds_of(place, target, ctx)) for place in places}
    if any(is_address(_innermost(place, ctx), rounds[place], ctx) for place in places):
        return False
    if fills_columns(places, made, ctx):
        return False
    if (
        leaves_columns(places, made, ctx)
        or skips_columns(places, ctx)
        or _mark_some(places, target, ctx)
        or leave_out_beyond([place.slice for place in places], ctx)
    ):
        return True
    one_number = write_one_number(places, ctx)
    places = without_single_columns(places, rounds, sizes_of(made, ctx), ctx)
    left = (_leaves_something(place, target, made, one_number, ctx) for place in places)
    if all(are_alternatives(one, other, ctx) for one, other in combinations(places, 2)):
        return any(left)
    return (one_number and all(left)) or _keep_to_one_choice(places, ctx)


def _keep_to_one_choice(places: Sequence[ast.Subscript], ctx: Context) -> bool:
    """`out[chosen[:-1]] = x` and `out[chosen[-1]] = y` after `chosen = mask.nonzero()[0]`."""
    chosen = [place.slice.value for place in places if isinstance(place.slice, ast.Subscript)]
    one = len({ast.unparse(choice) for choice in chosen}) == 1 and len(chosen) == len(places)
    return one and _is_mask(chosen[0], ctx)


def _mark_some(places: Sequence[ast.Subscript], target: ast.AST, ctx: Context) -> bool:
    """Is the same number written everywhere that is written? If all places were to hold it, nobody would name some."""
    rounds = {loop for place in places for loop in rounds_of(place, target, ctx)}
    return write_one_number(places, ctx) and name_some(places, rounds)


def _leaves_something(place: ast.Subscript, target: ast.AST, made: ast.expr, marks: bool, ctx: Context) -> bool:
    """Does one write, in all rounds that repeat it, leave places of the memory as they were?"""
    if any(isinstance(parent, COMPREHENSIONS) for parent in ctx.ancestors(place)):
        return False  # `dist.all_gather([out[i : i + n] for i in starts], x)`
    rounds = list(rounds_of(place, target, ctx))
    if not rounds:
        return _is_left_at_once(place, made, ctx)
    return _is_left_by_rounds(_innermost(place, ctx), rounds, made, marks, ctx)


def _innermost(place: ast.Subscript, ctx: Context) -> ast.Subscript:
    """Return `out[i][:n]` of its `out[i]`."""
    around = ctx.parent(place)
    return _innermost(around, ctx) if isinstance(around, ast.Subscript) and around.value is place else place


def are_alternatives(one: ast.AST, other: ast.AST, ctx: Context) -> bool:
    """Do two places stand in two branches of one `if`, of which one is run?"""
    around = {parent: child for child, parent in pairwise((one, *ctx.ancestors(one)))}
    child = other
    for parent in ctx.ancestors(other):
        if parent in around:
            first = around[parent]
            branches = (parent.body, parent.orelse) if isinstance(parent, ast.If) else ()
            return any(first in branch for branch in branches) and any(
                child in branch and first not in branch for branch in branches
            )
        child = parent
    return False


def is_filled_by_choice(write: ast.Name, ctx: Context) -> bool:
    """`if value != 0: out.fill_(value)`: there is as much to fill where the value is another one."""
    method = ctx.parent(write)
    call = ctx.parent(method) if isinstance(method, ast.Attribute) and method.attr == "fill_" else None
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return False
    around = ctx.parent(ctx.statement(call))
    given = {part.id for part in walk(call.args[0]) if isinstance(part, ast.Name)}
    asked = (
        {part.id for part in walk(around.test) if isinstance(part, ast.Name)} if isinstance(around, ast.If) else set()
    )
    return bool(given) and asked == given


def left_to_choice(
    conditional: Sequence[ast.Name], writes: Sequence[ast.Name], made: ast.expr, ctx: Context
) -> ast.If | None:
    """Return `if wanted: out[:, 2] = x` around the one write under a condition, where no other makes up for it."""
    around = ctx.parent(ctx.statement(conditional[0])) if len(conditional) == 1 else None
    rest = [ctx.parent(write) for write in writes if write not in conditional]
    places = [place for place in rest if isinstance(place, ast.Subscript)]
    if not isinstance(around, ast.If) or around.orelse or not places or len(places) < len(rest):
        return None
    return around if leaves_columns(places, made, ctx) else None


def is_under_same_choice(use: ast.AST, choice: ast.If, ctx: Context) -> bool:
    """Is memory looked at on a condition that has to do with the one on which it was written?"""
    names = set(map(identifier, walk(choice.test))) - {""}
    return any(
        isinstance(parent, (ast.If, ast.IfExp)) and not names.isdisjoint(map(identifier, walk(parent.test)))
        for parent in ctx.ancestors(use)
    )


def is_made_larger(writes: Sequence[ast.Name], ctx: Context) -> bool:
    """`more[:used] = rows[:used]`, where `used` is given: whoever gives it knows which part is in use."""
    return bool(writes) and all(_takes_over_as_told(ctx.parent(write), ctx) for write in writes)


def _takes_over_as_told(place: ast.AST | None, ctx: Context) -> bool:
    statement = ctx.parent(place) if isinstance(place, ast.Subscript) else None
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(place, ast.Subscript) or not isinstance(value, ast.Subscript):
        return False
    end = place.slice.upper if isinstance(place.slice, ast.Slice) else None
    bindings = ctx.module.definitions(end) if isinstance(end, ast.Name) else []
    told = is_own(end) if end is not None else False
    told = told or (bool(bindings) and all(isinstance(binding.node, ast.arg) for binding in bindings))
    return told and ast.dump(place.slice) == ast.dump(value.slice)


def rounds_of(write: ast.AST, target: ast.AST, ctx: Context) -> Iterator[_Loop]:
    """Yield the loops that a write is repeated by while the memory stays the same, the innermost first."""
    around = list(ctx.ancestors(target))
    for parent in ctx.ancestors(write):
        if isinstance(parent, LOOPS):
            inside = around[: around.index(parent)] if parent in around else None
            # `if out is None: out = torch.empty(n)` in the loop makes it once
            if inside is None or any(isinstance(other, ast.If) for other in inside):
                yield parent


def tells_extent(place: ast.expr, name: str, ctx: Context) -> bool:
    """`return out, lengths`, `attend(out, mask)`, `out * mask`: what goes along tells which part is in use.

    So does what takes a part only: `torch.diagonal(out)`.
    """
    if identifier(place.func if isinstance(place, ast.Call) else place) in _TAKE_PARTS:
        return True
    statement = ctx.statement(place)
    for around in (place, *ctx.ancestors(place)):
        beside: list[ast.expr] = []
        if isinstance(around, ast.Call):
            beside = arguments_of(around) if around.func is not place or not _adds(place) else []
        elif isinstance(around, ast.Tuple):
            beside = around.elts
        elif isinstance(around, ast.BinOp) and not isinstance(around.op, (ast.Add, ast.Sub)):
            beside = [around.left, around.right]
        elif isinstance(around, ast.Dict) and names_extent(around):
            return True
        words = (identifier(other.value if isinstance(other, ast.Subscript) else other) for other in beside)
        if any(_EXTENTS.search(word) for word in words if word != name):
            return True
        if around is statement:
            break
    return False


def _adds(method: ast.expr) -> bool:
    """`out.scatter_add_(0, index, x)`, whose places need not be all that is in use."""
    return identifier(method).startswith(("scatter_add", "index_add"))


def names_extent(entries: ast.Dict) -> bool:
    """`{"ids": ids, "lengths": lengths}`."""
    words = [key.value if isinstance(key, ast.Constant) else identifier(key) for key in entries.keys]
    words += map(identifier, entries.values)
    return any(_EXTENTS_OF_ENTRIES.search(word) for word in words if isinstance(word, str))


def _is_left_at_once(place: ast.Subscript, made: ast.expr, ctx: Context) -> bool:
    """`out[:n] = x`, `out[~mask] = x`, `mask[rows] = True`, `out[nodes[:, 0], nodes[:, 1]] = x`."""
    if _is_slice(place.slice):
        return not _is_whole(place.slice, made, ctx)
    return (
        are_coordinates(place.slice, ctx)
        or any(_is_mask(part, ctx) for part in _first(place.slice))
        or _takes_over(place, ctx)
        or _spreads(place, made, ctx)
    )


def _is_mask(places: ast.expr, ctx: Context) -> bool:
    """`~mask`, `x > 0`, `(x > low) & (x < high)`, `upper.bool()`, `mask.nonzero()`, and variables that are these.

    So is what is called a mask, or the places of a choice.
    """
    if isinstance(places, (ast.Name, ast.Attribute)) and _CHOSEN.search(identifier(places)):
        return not _joins_groups(places, ctx)
    if isinstance(places, ast.Name):
        bindings = ctx.module.definitions(places)
        made = bindings[0].value if len(bindings) == 1 and not bindings[0].index else None
        if isinstance(made, (ast.Call, ast.Subscript)) and _is_mask(made, ctx):
            return True
    if isinstance(places, ast.Subscript) and isinstance(places.value, ast.Call):
        return _finds_places(places.value, ctx)
    if isinstance(places, ast.UnaryOp):
        return isinstance(places.op, ast.Invert)
    if isinstance(places, ast.BinOp):
        joined = isinstance(places.op, (ast.BitAnd, ast.BitOr))
        return joined and _is_mask(places.left, ctx) and _is_mask(places.right, ctx)
    if isinstance(places, ast.Call) and (identifier(places.func) == "bool" or _finds_places(places, ctx)):
        return True
    values = ctx.values(places)
    return isinstance(places, ast.Compare) or (
        bool(values) and all(value.kind is Kind.TENSOR and value.dtype == "bool" for value in values)
    )


def _joins_groups(places: ast.Name | ast.Attribute, ctx: Context) -> bool:
    """`kept = torch.cat(parts)` of a list that rounds of a loop filled: the places of all groups, whatever the name."""
    made = only_value(ctx.module, places)
    given = made.args[0] if isinstance(made, ast.Call) and made.args and _joins(made, ctx) else None
    bindings = ctx.module.definitions(given) if isinstance(given, ast.Name) else ()
    return len(bindings) == 1 and any(
        _is_collected(use, bindings[0], ctx) for use in ctx.flow(places).uses(bindings[0])
    )


def _joins(call: ast.Call, ctx: Context) -> bool:
    return any(name.rpartition(".")[2] in _JOINING for name in ctx.callees(call))


def _is_collected(use: ast.Name, made: Binding, ctx: Context) -> bool:
    """`for rows in groups: parts.append(rows)` of a list that was empty before."""
    method = ctx.parent(use)
    begun = unpacked(made)
    around = set(ctx.ancestors(made.node))
    return (
        isinstance(begun, ast.List)
        and not begun.elts
        and isinstance(method, ast.Attribute)
        and method.attr in ("append", "extend")
        and any(isinstance(parent, LOOPS) and parent not in around for parent in ctx.ancestors(method))
    )


def _finds_places(call: ast.Call, ctx: Context) -> bool:
    """`mask.nonzero()`, `torch.nonzero(mask)`, `torch.where(mask)`."""
    if identifier(call.func) == "where":
        return len(call.args) == 1 and "torch.where" in ctx.callees(call)
    return identifier(call.func) == "nonzero"


def _is_left_by_rounds(
    place: ast.Subscript, rounds: Sequence[_Loop], made: ast.expr, marks: bool, ctx: Context
) -> bool:
    """Masks of a loop may leave nothing out, `new[labels == c] = i` for each class there is; other places do."""
    loops = [loop for loop in rounds if isinstance(loop, ast.For)]
    if len(loops) < len(rounds):
        return False
    if leaves_out_rounds(place, loops, marks, ctx) or leaves_gaps(place, ctx) or leaves_beginning(place):
        return True
    if marks_what_data_say(place, loops[0], ctx):
        return True
    if len(loops) > 1:
        return False
    loop, sizes = loops[0], sizes_of(made, ctx)
    return (
        passes_over(place, loop, sizes, ctx)
        or ends_before_the_data(place, loop)
        or keeps_to_the_diagonal(place, loop, ctx)
        or drops_the_last_batch(place, loop, sizes, ctx)
        or leaves_padding(place, loop, sizes, ctx)
    )


def _is_slice(places: ast.expr) -> bool:
    """`[1:]`, `[:, :count]`."""
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    return any(isinstance(part, ast.Slice) and (part.lower is not None or part.upper is not None) for part in parts)


def _is_whole(places: ast.expr, made: ast.expr, ctx: Context) -> bool:
    """`out[:n]` of `torch.empty(n)`."""
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    sizes = {ast.unparse(size) for size in sizes_of(made, ctx)}
    bounded = [part for part in parts if isinstance(part, ast.Slice) and not is_everything(part)]
    return all(
        part.lower is None and part.step is None and part.upper is not None and ast.unparse(part.upper) in sizes
        for part in bounded
    )


def _takes_over(place: ast.Subscript, ctx: Context) -> bool:
    """`out[kept] = f(x[kept])`: all of it would be `out = f(x)`."""
    statement, where = ctx.parent(place), ast.dump(place.slice)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if value is None or not any(isinstance(part, (ast.Name, ast.Attribute)) for part in walk(place.slice)):
        return False
    return any(isinstance(part, ast.Subscript) and where in map(ast.dump, _first(part.slice)) for part in walk(value))


def _spreads(place: ast.Subscript, made: ast.expr, ctx: Context) -> bool:
    """`out[indices] = x` of `torch.empty(total, *x.shape[1:])`: as many rows as `x` has, out of another number."""
    statement = ctx.parent(place)
    value = statement.value if isinstance(statement, ast.Assign) else None
    sizes = sizes_of(made, ctx)
    if not isinstance(value, ast.Name) or not isinstance(place.slice, ast.Name) or len(sizes) < 2:
        return False
    rest = [part.id for size in sizes[1:] for part in walk(size) if isinstance(part, ast.Name)]
    return value.id in rest and isinstance(sizes[0], ast.Name) and not _is_size_of(sizes[0], value, ctx)


def _is_size_of(size: ast.Name, value: ast.Name, ctx: Context) -> bool:
    """`n = x.shape[0]`, `n, c = x.shape`."""
    made = [binding.value for binding in ctx.module.definitions(size)]
    return any(
        part is not None and any(isinstance(name, ast.Name) and name.id == value.id for name in walk(part))
        for part in made
    )


def _first(places: ast.expr) -> list[ast.expr]:
    """Return `rows, labels` and `rows` of an index."""
    return [places, *(places.elts[:1] if isinstance(places, ast.Tuple) else [])]
