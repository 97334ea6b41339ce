"""Is an image resized to a part of its own size, or to all of it?

`x.reshape(1, h, w, -1).permute(0, 3, 1, 2)`, and then `size=(h, w)`: each place of the result is then one place of the
input, and of the gradient. `h, w = x.shape[-2:]`, and then `size=(h // 2, w // 2)`: that is a scale factor of a half.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.as_called import as_callers_give
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.names import Binding, BindingKind
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_RESIZES = frozenset({"torch.nn.functional.interpolate", "torch.nn.functional.upsample"})
_SHAPES = frozenset({"reshape", "view"})
_SAME = frozenset({"float", "half", "double", "to", "cuda", "cpu", "contiguous", "type", "type_as"})
_MAX_STEPS = 6


def keeps_size(image: ast.expr | None, size: ast.expr | None, name: str, ctx: Context) -> bool:
    """Return whether the function `name` gives an image the spatial sizes that it was reshaped to before."""
    if image is None or size is None or name not in _RESIZES:
        return False
    if isinstance(size, (ast.Tuple, ast.List)):
        spatial = _sizes_of(image, ctx, _MAX_STEPS)[2:]
        if len(spatial) == len(size.elts) and all(map(_are_same, spatial, size.elts, [ctx] * len(spatial))):
            return True
    asked = as_callers_give([image, size], ctx)
    return bool(asked) and all(keeps_size(given[0], given[1], name, inside) for given, inside in asked)


def scale_of(image: ast.expr | None, size: ast.expr | None, ctx: Context) -> list[float]:
    """Return by which factor an image grows in each dimension, at the most; nothing where its own size does not tell.

    `size=(x.shape[2] // 2, x.shape[3] // 2)` is a half, or less where an odd number is rounded.
    """
    factors = _own_scale(image, size, ctx)
    asked = as_callers_give([image, size], ctx) if not factors and image is not None and size is not None else []
    found = [_own_scale(given[0], given[1], inside) for given, inside in asked]
    return factors or (found[0] if found and all(each == found[0] for each in found) else [])


def _own_scale(image: ast.expr | None, size: ast.expr | None, ctx: Context) -> list[float]:
    if not isinstance(image, ast.Name):
        return []
    wanted = only_value(ctx.module, size) if isinstance(size, (ast.Name, ast.Attribute)) else size
    if isinstance(wanted, (ast.ListComp, ast.GeneratorExp)):
        return _scale_of_each(image, wanted, ctx)
    if not isinstance(wanted, (ast.Tuple, ast.List)):
        return []
    parts = [_divided(element, ctx) for element in wanted.elts]
    own = [_is_own_size(part, image, place, len(parts), ctx) for place, (part, _) in enumerate(parts)]
    return [factor for _, factor in parts] if all(own) else []


def _scale_of_each(image: ast.Name, sizes: ast.ListComp | ast.GeneratorExp, ctx: Context) -> list[float]:
    """`[side // 2 for side in x.shape[2:]]`."""
    part, factor = _divided(sizes.elt, ctx)
    loop = sizes.generators[0]
    alone = len(sizes.generators) == 1 and not loop.ifs and identifier(part) == identifier(loop.target)
    places = _shape_places(loop.iter, image, ctx)
    return [factor] if alone and isinstance(part, ast.Name) and places is not None and places[0] in (2, -2) else []


def _divided(size: ast.expr, ctx: Context) -> tuple[ast.expr, float]:
    """Return `h` and a half for `h // 2`, `int(h / 2)` and `h >> 1`."""
    while isinstance(size, ast.Call) and "builtins.int" in ctx.callees(size) and len(size.args) == 1:
        size = size.args[0]
    by = ctx.constant(size.right) if isinstance(size, ast.BinOp) else MISSING
    if not isinstance(size, ast.BinOp) or type(by) is not int or by <= 0:
        return size, 1.0
    if isinstance(size.op, (ast.FloorDiv, ast.Div)):
        return size.left, 1 / by
    return (size.left, 0.5**by) if isinstance(size.op, ast.RShift) else (size, 1.0)


def _is_own_size(size: ast.expr, image: ast.Name, place: int, sizes: int, ctx: Context) -> bool:
    """Is it the size that an image has in one of its last dimensions, by place: `x.shape[2]`, `h` of `h, w = …`?"""
    wanted = (place + 2, place - sizes)  # behind batch and channels
    if isinstance(size, ast.Subscript) or (isinstance(size, ast.Call) and size.args):
        return _read_place(size, image, ctx) in wanted
    found = ctx.module.definitions(size) if isinstance(size, ast.Name) else ()
    if len(found) != 1 or found[0].kind is not BindingKind.ASSIGN or found[0].value is None:
        return False
    if not found[0].index:
        return _read_place(found[0].value, image, ctx) in wanted
    places = _shape_places(found[0].value, image, ctx)
    return places is not None and _unpacked_place(found[0], places, ctx) in wanted


def _unpacked_place(binding: Binding, places: tuple[int, int | None], ctx: Context) -> int | None:
    """Return the dimension of `w` in `*_, h, w = x.shape`, from the end where names before it are starred."""
    target = ctx.parent(binding.node)
    names = target.elts if isinstance(target, ast.Tuple) else []
    at = next((at for at, name in enumerate(names) if name is binding.node), None)
    if at is None:
        return None
    if any(isinstance(name, ast.Starred) for name in names[:at]):
        return at - len(names) if places[1] is None else None
    return places[0] + at


def _read_place(size: ast.expr, image: ast.Name, ctx: Context) -> int | None:
    """Return the dimension that `x.shape[2]`, `x.size(2)` or `x.size()[2]` reads."""
    if isinstance(size, ast.Call):
        method = size.func
        read = isinstance(method, ast.Attribute) and method.attr == "size" and _is_same_image(method.value, image, ctx)
        place = ctx.constant(size.args[0]) if read and size.args else None
        return place if type(place) is int else None
    places = _shape_places(size.value, image, ctx) if isinstance(size, ast.Subscript) else None
    place = ctx.constant(size.slice) if isinstance(size, ast.Subscript) and places == (0, None) else None
    return place if type(place) is int else None


def _shape_places(shape: ast.expr, image: ast.Name, ctx: Context) -> tuple[int, int | None] | None:
    """Return the first dimension that `x.shape`, `x.size()` or `x.shape[-2:]` lists, and the one where it ends."""
    if isinstance(shape, ast.Subscript) and isinstance(shape.slice, ast.Slice) and shape.slice.step is None:
        whole = _shape_places(shape.value, image, ctx)
        lower, upper = shape.slice.lower, shape.slice.upper
        start = 0 if lower is None else ctx.constant(lower)
        end = None if upper is None else ctx.constant(upper)
        known = whole == (0, None) and type(start) is int and (end is None or type(end) is int)
        return (start, end) if known else None  # type: ignore[return-value]
    if isinstance(shape, ast.Call):
        shape = shape.func if not shape.args and identifier(shape.func) == "size" else shape
    elif identifier(shape) != "shape":
        return None
    read = isinstance(shape, ast.Attribute) and _is_same_image(shape.value, image, ctx)
    return (0, None) if read else None


def _is_same_image(tensor: ast.expr, image: ast.Name, ctx: Context) -> bool:
    """Is it the same variable, bound by the same?"""
    return isinstance(tensor, ast.Name) and tensor.id == image.id and _are_same(tensor, image, ctx)


def _sizes_of(tensor: ast.expr, ctx: Context, steps: int) -> list[ast.expr]:
    """Return the sizes of all dimensions, as they are written where the tensor is reshaped; none where it is not."""
    if steps == 0:
        return []
    if isinstance(tensor, (ast.Name, ast.Attribute)):
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
