"""Indices that name every place at most once, going by the operators that made them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import all_callers_give
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.only_values import only_value
from detlint.linter.indices.positions import SAME_ELEMENTS
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.values import Value

# What names the places of a sparse tensor, and what holds rows of an embedding alone.
_PLACES = ("indices", "_indices")
_GRADIENT = re.compile(r"(^|_)grads?(_|$)")
# Under which attribute a derivative finds the tensors that its operator saved.
_SAVED = "saved_tensors"
_MAX_STEPS = 6
_MAX_VIEWS = 4
# Indices made by these name every place at most once.
_DISTINCT = frozenset(
    f"torch.{owner}{name}"
    for name in ("arange", "randperm", "nonzero", "sort", "argsort", "topk")
    for owner in ("", "Tensor.")
)
# Of those that work along a dimension, how many parameters come before it.
_BEFORE_DIM = {"topk": 2, "sort": 1, "argsort": 1}
_UNIQUE = frozenset(f"torch.{owner}{name}" for name in ("unique", "unique_consecutive") for owner in ("", "Tensor."))
_VIEWS = frozenset(
    {"expand", "expand_as", "flatten", "long", "repeat", "reshape", "squeeze", "to", "unsqueeze", "view"}
)
_WIDENING = frozenset({"broadcast_to", "expand", "repeat", "tile"})
FLATTENING = frozenset({"flatten", "ravel", "reshape", "view"})


def is_inverse(index: ast.expr, ctx: Context) -> bool:
    """`rows, index = torch.unique(x, return_inverse=True)`: each row as often as it stood in `x`."""
    place: ast.expr | None = index
    position: object = None
    if isinstance(index, ast.Name):
        found = ctx.module.definitions(index)
        if len(found) != 1 or len(found[0].index) > 1:
            return False
        place, position = found[0].value, next(iter(found[0].index), None)
    if isinstance(place, ast.Subscript):
        position, place = ctx.constant(place.slice), place.value
    return position == 1 and isinstance(place, ast.Call) and _gives_inverse(place, ctx)


def names_rows_once(index: ast.expr, ctx: Context) -> bool:
    """`grad.coalesce()`, then `rows = grad._indices()[0]`: a sparse gradient has one row for each that it names."""
    made = only_value(ctx.module, index) or index
    call = made.value if isinstance(made, ast.Subscript) and ctx.constant(made.slice) == 0 else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _PLACES:
        return False
    owner = call.func.value
    joined = only_value(ctx.module, owner) or owner
    coalesced = isinstance(joined, ast.Call) and identifier(joined.func) == "coalesce"
    return coalesced and _GRADIENT.search(identifier(owner)) is not None


def _gives_inverse(call: ast.Call, ctx: Context) -> bool:
    asked = any(word.arg == "return_inverse" and ctx.constant(word.value) is True for word in call.keywords)
    return asked and not _UNIQUE.isdisjoint(ctx.callees(call))


def is_permutation(index: ast.expr, ctx: Context, depth: int = 2) -> bool:
    """Return whether an index is a permutation by its name, the places of a mask, or that of a maximum.

    The index of a helper is one where all callers in the project pass one.
    """
    named = gradient_table().permutations
    shaped = False
    for _ in range(_MAX_STEPS):
        if isinstance(index, ast.Name):
            if named.search(index.id):
                return not _are_truths(index, ctx)
            bindings = ctx.module.definitions(index)
            found = [binding for binding in bindings if not _is_view(binding)] or bindings
            if is_one_of_columns(index, ctx):
                return False
            if len(found) != 1:
                return bool(found) and depth > 0 and all(_is_set_to_permutation(each, ctx, depth - 1) for each in found)
            if isinstance(found[0].node, ast.arg):
                return depth > 0 and _gets_permutations(found[0], ctx, depth - 1)
            source = _taken_from(found[0], ctx)
            if source is None:
                return False
            index = source
        elif isinstance(index, ast.Attribute):
            return named.search(index.attr) is not None
        elif isinstance(index, ast.Subscript):
            if is_later_dimension(index, ctx):
                return False
            index = index.value
        elif not isinstance(index, ast.Call):
            return False
        elif {"torch.argmax", "torch.argmin"}.intersection(ctx.callees(index)):
            return len(index.args) == 1 and not index.keywords
        elif isinstance(index.func, ast.Attribute) and index.func.attr == "nonzero":
            return True
        elif isinstance(index.func, ast.Attribute) and (shaped or not _repeats_places(index, ctx)):
            shaped = shaped or _shapes(index, ctx)
            index = index.func.value
    return False


def _is_set_to_permutation(binding: Binding, ctx: Context, depth: int) -> bool:
    """Is one of several values of a name a permutation, as each branch sets it?"""
    made = binding.value if binding.kind is BindingKind.ASSIGN and not binding.index else None
    return made is not None and is_permutation(made, ctx, depth)


def _are_truths(index: ast.expr, ctx: Context) -> bool:
    """`is_hit = (x > 0).long()`: ones and zeros, whatever they are called."""
    for _ in range(_MAX_STEPS):
        if isinstance(index, ast.Name):
            found = ctx.module.definitions(index)
            if len(found) != 1 or found[0].value is None or found[0].index:
                return False
            index = found[0].value
        elif isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
            index = index.func.value
        else:
            return isinstance(index, ast.Compare)
    return False


def are_distinct(
    index: Value, ctx: Context, steps: int = _MAX_VIEWS, shaped: bool = False, merged: bool = False
) -> bool:
    """Return whether `arange` or its like made an index, seen through views of which no row names a place twice.

    A view may have `shaped` what it is made of into rows, or `merged` the rows of that into one.
    """
    node, module = index.node, index.module
    if module is None or steps == 0:
        return False
    inside = ctx.elsewhere(module)
    base: ast.expr | None = None
    if isinstance(node, ast.Call):
        if _DISTINCT.intersection(inside.callees(node)):
            return not (merged and _chooses_in_rows(node, inside))
        if not shaped and _repeats_places(node, inside):
            return False
        shaped = shaped or _shapes(node, inside)
        merged = merged or (not shaped and identifier(node.func) in FLATTENING)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            base = node.func.value
    if isinstance(node, ast.Subscript) and not is_later_dimension(node, inside):
        base = node.value
    if isinstance(node, ast.Attribute) and node.attr == "indices":
        base = node.value  # torch.topk(x, 3).indices
    found = inside.values(base) if base is not None else ()
    return bool(found) and all(are_distinct(value, ctx, steps - 1, shaped, merged) for value in found)


def _chooses_in_rows(call: ast.Call, ctx: Context) -> bool:
    """`scores.topk(k, dim=-1)`: a choice in each row, and what is chosen in one may be chosen in another."""
    before = _BEFORE_DIM.get(identifier(call.func), 0)
    method = not any(name.startswith("torch.") and name.count(".") == 1 for name in ctx.callees(call))
    placed = dict(enumerate(call.args, start=1 if method else 0))
    dim = next((word.value for word in call.keywords if word.arg == "dim"), placed.get(before))
    return before > 0 and ctx.constant(dim) not in (0, MISSING)


def _repeats_places(view: ast.Call, ctx: Context) -> bool:
    """`rows.repeat(k)`, `rows[:, None].expand(-1, k).reshape(-1)`: one dimension in which each place stands k times."""
    if not isinstance(view.func, ast.Attribute):
        return False
    if view.func.attr in ("repeat", "tile"):
        return len(_sizes(view)) == 1 and _widens(view, ctx)
    if view.func.attr == "repeat_interleave":
        return True
    return view.func.attr in FLATTENING and not _shapes(view, ctx) and _is_widened(view.func.value, ctx)


def _shapes(view: ast.Call, ctx: Context) -> bool:
    """`rows.repeat(k).view(k, -1)`: no place stands twice in a row of it."""
    name = view.func.attr if isinstance(view.func, ast.Attribute) else ""
    return name in FLATTENING and bool(view.args) and [ctx.constant(size) for size in _sizes(view)] != [-1]


def _is_widened(node: ast.expr, ctx: Context) -> bool:
    """Return whether a tensor holds its places several times over, seen through names and copies to a device."""
    for _ in range(_MAX_STEPS):
        if isinstance(node, ast.Name):
            found = ctx.module.definitions(node)
            if len(found) != 1 or found[0].value is None or found[0].kind is not BindingKind.ASSIGN or found[0].index:
                return False
            node = found[0].value
        elif not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        elif node.func.attr in _WIDENING:
            return _widens(node, ctx)
        elif node.func.attr in SAME_ELEMENTS:
            node = node.func.value
        else:
            return False
    return False


def _widens(view: ast.Call, ctx: Context) -> bool:
    """Is one of the sizes other than 1 and -1? `rows.expand(1, -1)` holds what it held before."""
    sizes = _sizes(view)
    return not any(isinstance(size, ast.Starred) for size in sizes) and any(
        ctx.constant(size) not in (1, -1) for size in sizes
    )


def _sizes(view: ast.Call) -> list[ast.expr]:
    return [size for given in view.args for size in (given.elts if isinstance(given, ast.Tuple) else (given,))]


def is_one_of_columns(index: ast.expr, ctx: Context) -> bool:
    """`rows, columns = mask.nonzero(as_tuple=True)`: a row of a matrix may well hold several."""
    found = ctx.module.definitions(index) if isinstance(index, ast.Name) else ()
    if len(found) != 1 or len(found[0].index) != 1 or not isinstance(found[0].value, ast.Call):
        return False
    together = ctx.parent(found[0].node)
    several = isinstance(together, (ast.Tuple, ast.List)) and len(together.elts) > 1
    return several and identifier(found[0].value.func) == "nonzero"


def is_later_dimension(picked: ast.Subscript, ctx: Context) -> bool:
    """`mask.nonzero()[:, 1]`, `mask.nonzero(as_tuple=True)[-1]`: one column may well stand in several rows."""
    call = only_value(ctx.module, picked.value) or picked.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "nonzero":
        return False
    return isinstance(picked.slice, ast.Tuple) or ctx.constant(picked.slice) not in (0, MISSING)


def _taken_from(binding: Binding, ctx: Context) -> ast.expr | None:
    """Return what a name is set to, or what a loop takes it from: `for row, perm in zip(rows, perms)`.

    What a derivative reads of `ctx.saved_tensors` is what its operator saved.
    """
    saved = _saved_for_backward(binding, ctx)
    if saved is not None:
        return saved
    value = binding.value
    zipped = isinstance(value, ast.Call) and "builtins.zip" in ctx.callees(value)
    if binding.kind is not BindingKind.ITERATION or not isinstance(value, ast.Call) or not zipped:
        return value
    place = binding.index[0] if len(binding.index) == 1 else len(value.args)
    return value.args[place] if place < len(value.args) else None


def _saved_for_backward(binding: Binding, ctx: Context) -> ast.expr | None:
    """Return the `rows` of `ctx.save_for_backward(rows)` for `(rows,) = ctx.saved_tensors` in the same class."""
    value, index = binding.value, ctx.module.index
    if not isinstance(value, ast.Attribute) or value.attr != _SAVED or len(binding.index) != 1:
        return None
    owner = index.class_at(value)
    calls = [call for call in index.calls_by_name.get("save_for_backward", ()) if index.class_at(call) is owner]
    saved = calls[0].args if owner is not None and len(calls) == 1 else []
    place = binding.index[0]
    written_out = not any(isinstance(tensor, ast.Starred) for tensor in saved)
    return saved[place] if written_out and 0 <= place < len(saved) else None


def _is_view(binding: Binding) -> bool:
    """`index = index.unsqueeze(-1)`: the same elements under the same name."""
    value = binding.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return isinstance(value, ast.Name) and value is not binding.value and value.id == binding.name


def _gets_permutations(parameter: Binding, ctx: Context, depth: int) -> bool:
    function = parameter.scope.node
    if not isinstance(function, FUNCTIONS):
        return False
    return all_callers_give(function, parameter.name, ctx, lambda given, inside: is_permutation(given, inside, depth))
