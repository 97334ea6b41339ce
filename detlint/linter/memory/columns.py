"""Which columns, or rows, do writes name by number: `out[:, 0] = x`, `out[..., :2] = y`?"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from detlint.linter.memory.padding import sizes_of

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Places written twice are looked for in dimensions up to this size.
_MOST_COUNTED = 4096


def leaves_columns(places: list[ast.Subscript], made: ast.expr, ctx: Context) -> bool:
    """`out[:, 0] = x` and `out[:, 1] = y` of `torch.empty(n, 3)`."""
    size, written = _written_columns(places, made, ctx)
    return sum(map(len, written)) < size or (0 < size <= _MOST_COUNTED and len(set().union(*written)) < size)


def fills_columns(places: list[ast.Subscript], made: ast.expr, ctx: Context) -> bool:
    """`out[0] = x` of `torch.empty(1, n)`, `out[0] = x` and `out[1] = y` of `torch.empty(2, n)`."""
    size, written = _written_columns(places, made, ctx)
    whole = all(isinstance(place.ctx, ast.Store) for place in places)
    return whole and 0 < size <= _MOST_COUNTED and len(set().union(*written)) == size


def skips_columns(places: list[ast.Subscript], ctx: Context) -> bool:
    """`out[:, 0] = x` and `out[:, 2] = y`: there is a column between, however many there are."""
    written: dict[int, set[int]] = {}
    for place in places:
        parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
        partial = [at for at, part in enumerate(parts) if not is_everything(part)]
        column = ctx.constant(parts[partial[0]]) if len(partial) == 1 else None
        if type(column) is not int or column < 0:
            return False
        skipped = any(isinstance(part, ast.Constant) for part in parts[: partial[0]])
        written.setdefault(partial[0] - len(parts) if skipped else partial[0], set()).add(column)
    return len(written) == 1 and all(len(columns) <= max(columns) for columns in written.values())


def _written_columns(places: list[ast.Subscript], made: ast.expr, ctx: Context) -> tuple[int, list[range]]:
    """Return the size of the one dimension that places name a part of, 0 if that is not known, and these parts."""
    sizes = sizes_of(made, ctx)
    columns = [_columns(place.slice, sizes, ctx) for place in places]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns) or len({(dimension, size) for dimension, size, _ in found}) != 1:
        return 0, []
    return found[0][1], [part for _, _, part in found]


def _columns(places: ast.expr, sizes: list[ast.expr], ctx: Context) -> tuple[int, int, range] | None:
    """Return the dimension, its size and the places in it that `[..., :2]` names; the others must be whole."""
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    partial = [at for at, part in enumerate(parts) if not is_everything(part)]
    if len(partial) != 1 or any(isinstance(size, ast.Starred) for size in sizes):
        return None
    skipped = any(isinstance(part, ast.Constant) and part.value is ... for part in parts[: partial[0]])
    dimension = len(sizes) - len(parts) + partial[0] if skipped else partial[0]
    size = ctx.constant(sizes[dimension]) if 0 <= dimension < len(sizes) else None
    if type(size) is not int or size > sys.maxsize:
        return None
    part, every = parts[partial[0]], range(size)
    if not isinstance(part, ast.Slice):
        at = ctx.constant(part)
        return (dimension, size, every[at:][:1]) if type(at) is int and -size <= at < size else None
    given = [None if bound is None else ctx.constant(bound) for bound in (part.lower, part.upper, part.step)]
    bounds = [bound for bound in given if bound is None or isinstance(bound, int)]
    if len(bounds) < len(given) or bounds[2] == 0:
        return None
    return dimension, size, every[slice(*bounds)]


def is_everything(part: ast.expr) -> bool:
    """`:`, `...`."""
    if isinstance(part, ast.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return isinstance(part, ast.Constant) and part.value is ...
