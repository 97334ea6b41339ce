"""Is an image resized to the size that it has: `x.reshape(1, h, w, -1).permute(0, 3, 1, 2)`, and then `size=(h, w)`?

Each place of the result is then one place of the input, and of the gradient.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_RESIZES = frozenset({"torch.nn.functional.interpolate", "torch.nn.functional.upsample"})
_SHAPES = frozenset({"reshape", "view"})
_SAME = frozenset({"float", "half", "double", "to", "cuda", "cpu", "contiguous", "type", "type_as"})
_MAX_STEPS = 6


def keeps_size(image: ast.expr | None, size: ast.expr | None, name: str, ctx: Context) -> bool:
    """Return whether the function `name` gives an image the spatial sizes that it was reshaped to before."""
    if image is None or not isinstance(size, (ast.Tuple, ast.List)) or name not in _RESIZES:
        return False
    sizes = _sizes_of(image, ctx, _MAX_STEPS)
    spatial = sizes[2:]
    return len(spatial) == len(size.elts) and all(
        _are_same(known, wanted, ctx) for known, wanted in zip(spatial, size.elts, strict=True)
    )


def _sizes_of(tensor: ast.expr, ctx: Context, steps: int) -> list[ast.expr]:
    """Return the sizes of all dimensions, as they are written where the tensor is reshaped; none where it is not."""
    if steps == 0:
        return []
    if isinstance(tensor, ast.Name):
        made = only_value(ctx.module, tensor)
        return _sizes_of(made, ctx, steps - 1) if made is not None else []
    if not isinstance(tensor, ast.Call) or not isinstance(tensor.func, ast.Attribute):
        return []
    if tensor.func.attr in _SHAPES:
        given = tensor.args[0] if len(tensor.args) == 1 else None
        sizes = given.elts if isinstance(given, (ast.Tuple, ast.List)) else tensor.args
        return [] if any(isinstance(size, ast.Starred) for size in sizes) else sizes
    before = _sizes_of(tensor.func.value, ctx, steps - 1)
    if tensor.func.attr == "permute":
        places = [ctx.constant(place) for place in tensor.args]
        return [before[place] for place in places if isinstance(place, int) and -len(before) <= place < len(before)]
    return before if tensor.func.attr in _SAME else []


def _are_same(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Are two expressions written alike, of variables that nothing binds again in between?"""
    if ast.unparse(one) != ast.unparse(other) or any(isinstance(part, ast.Call) for part in walk(one)):
        return False
    names = [[part for part in walk(side) if isinstance(part, ast.Name)] for side in (one, other)]
    return all(set(ctx.module.definitions(a)) == set(ctx.module.definitions(b)) for a, b in zip(*names, strict=True))
