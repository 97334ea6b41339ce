"""Is room left behind rows of different lengths in memory as long as the longest of them?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.written_here import written_out
from detlint.linter.indices.no_elements import SIZES
from detlint.linter.memory.rounds import bound_in, is_counter, names_of, parts_of, value_of
from detlint.linter.source.nodes import identifier, walk

_LARGEST = re.compile(r"(^|_)max(_|$|imum|len)|longest", re.IGNORECASE)


def leaves_padding(place: ast.Subscript, loop: ast.For, sizes: list[ast.expr], ctx: Context) -> bool:
    """`for i, row in enumerate(rows): out[i, : len(row)] = row` of `torch.empty(n, max(map(len, rows)))`."""
    parts = parts_of(place)
    if not any(is_counter(identifier(part), loop, ctx) for part in parts):
        return False
    changing = names_of(loop.target).union(*map(bound_in, loop.body))
    for at, part in enumerate(parts):
        bounds = [part.lower, part.upper] if isinstance(part, ast.Slice) else []
        given = [bound for bound in bounds if bound is not None and type(ctx.constant(bound)) is not int]
        cut = len(given) == 1 and changing & {identifier(word) for word in walk(given[0])}
        if cut and any(_is_largest(size, ctx) for size in _sizes_at(at, sizes, ctx)):
            return not _is_noted(place, part, loop)
    return False


def _sizes_at(at: int, sizes: list[ast.expr], ctx: Context) -> Iterator[ast.expr]:
    """Yield what a dimension may be as large as: `longest` of `shape = (n, longest) + x.shape[1:]`."""
    if at < len(sizes):
        yield sizes[at]
    for binding in ctx.module.definitions(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], ast.Name) else ():
        shape = binding.value.left if isinstance(binding.value, ast.BinOp) else binding.value
        yield from shape.elts[at : at + 1] if isinstance(shape, (ast.Tuple, ast.List)) else ()


def _is_largest(size: ast.expr, ctx: Context) -> bool:
    """`max(lengths)`, `max_len`."""
    return any(_LARGEST.search(identifier(part)) for part in (*walk(size), *walk(value_of(size, (), ctx))))


def _is_noted(place: ast.Subscript, part: ast.expr, loop: ast.For) -> bool:
    """`mask[i, : len(row)] = True` beside it tells what is padding."""
    return any(
        isinstance(other, ast.Subscript)
        and isinstance(other.ctx, ast.Store)
        and ast.unparse(other.value) != ast.unparse(place.value)
        and ast.unparse(part) in ast.unparse(other.slice)
        for other in walk(loop)
    )


def without_single_columns(
    places: list[ast.Subscript], rounds: Mapping[ast.Subscript, Sequence[ast.stmt]], sizes: list[ast.expr], ctx: Context
) -> list[ast.Subscript]:
    """Return the places without `out[:, -1] = end` and `out[i, 0] = begin`, where the others leave room behind rows."""
    rest = [place for place in places if not _is_single_column(place, ctx)]
    loops = [loop for place in rest for loop in rounds[place][:1] if isinstance(loop, ast.For)]
    padded = len(loops) == len(rest) and all(
        leaves_padding(place, loop, sizes, ctx) for place, loop in zip(rest, loops, strict=True)
    )
    return rest if rest and padded else places


def _is_single_column(place: ast.Subscript, ctx: Context) -> bool:
    """`[:, -1]`, `[i, 0]`."""
    parts = parts_of(place)
    return len(parts) > 1 and type(ctx.constant(parts[-1])) is int


def is_cleared_beside(places: Sequence[ast.Subscript], ctx: Context) -> bool:
    """`text[i, :n] = x` after `text.zero_()`, in the loop of `wave[i, :m] = y`: whoever clears one means all of them.

    Lengths that go along do not make up for the room behind then.
    """
    loops = {parent for place in places for parent in ctx.ancestors(place) if isinstance(parent, ast.For)}
    own = {identifier(place.value) for place in places}
    beside = {
        part.value.id
        for loop in loops
        for part in walk(loop)
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and _is_cut(part)
    } - own
    return bool(beside & _cleared(ctx.function(places[0]), ctx)) and all(map(_is_cut, places))


def _is_cut(place: ast.Subscript) -> bool:
    """`out[i, :n] = x`."""
    slices = [part for part in parts_of(place) if isinstance(part, ast.Slice)]
    return isinstance(place.ctx, ast.Store) and any(part.lower or part.upper for part in slices)


def _cleared(function: ast.AST | None, ctx: Context) -> set[str]:
    """Return the variables of a function that are filled whole: `out.zero_()`, `out = torch.empty(n).fill_(1)`."""
    methods = (part for part in walk(function) if isinstance(part, ast.Attribute)) if function is not None else ()
    cleared = [part for part in methods if part.attr in ("zero_", "fill_")]
    made = [ctx.statement(part) for part in cleared]
    targets = [target for step in made if isinstance(step, ast.Assign) for target in step.targets]
    return {identifier(part.value) for part in cleared} | set(map(identifier, targets))


def sizes_of(made: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return the sizes that memory is made with, as far as they are written one by one: `torch.empty(n, 4)`.

    A function of the project may make it: `rows_for(n)`.
    """
    made = written_out(ctx.module, made)
    if not isinstance(made, ast.Call):
        return []
    sizes = made.args or [word.value for word in made.keywords if word.arg in SIZES]
    if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts  # what stands behind it is the kind of numbers
    return list(sizes)
