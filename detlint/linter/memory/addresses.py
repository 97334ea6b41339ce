"""Is a part of memory handed on as an address only, from which more is written than the part holds?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import functions_called
from detlint.linter.memory.looped import source_of
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.linter.analysis.context import Context

# What gives the address at which a tensor or an array begins.
_ADDRESSES = frozenset({"data_ptr", "mutable_data_ptr", "ctypes", "__array_interface__", "__cuda_array_interface__"})
_RANGE_WITH_STEP = 3


def is_address(place: ast.Subscript, loops: Sequence[ast.AST], ctx: Context) -> bool:
    """`kernel[grid](x[start], out[start], n)`, `fill(out[start:].data_ptr(), n)`: how far it writes is not said.

    So for code that is not in sight, where each round of a loop hands over what begins a part, and no end.
    """
    around = ctx.parent(place)
    if isinstance(around, ast.Attribute):
        return around.attr in _ADDRESSES
    while isinstance(around, (ast.keyword, ast.Tuple, ast.List)):
        around = ctx.parent(around)
    if not isinstance(around, ast.Call) or not isinstance(place.ctx, ast.Load):
        return False
    return _launches(around, ctx) or (_is_out_of_sight(around, ctx) and _begins_a_part(place, loops, ctx))


def _launches(call: ast.Call, ctx: Context) -> bool:
    """`kernel[grid](out)`, also `launch = kernel[grid]` and then `launch(out)`."""
    called = [binding.value for binding in ctx.module.definitions(call.func)] if isinstance(call.func, ast.Name) else []
    return any(isinstance(each, ast.Subscript) for each in (call.func, *called))


def _is_out_of_sight(call: ast.Call, ctx: Context) -> bool:
    """Is this no function of torch or NumPy, nor one of the project?"""
    known = any(
        name.startswith(("torch.", "numpy.")) and not name.startswith("torch.ops.") for name in ctx.callees(call)
    )
    return not known and next(functions_called(ctx.inference, call), None) is None


def _begins_a_part(place: ast.Subscript, loops: Sequence[ast.AST], ctx: Context) -> bool:
    """`out[start:]` in rounds for each `start`, and `out[start]` of `for start in range(0, n, step)`."""
    begin = place.slice
    is_open = isinstance(begin, ast.Slice) and begin.upper is None
    if isinstance(begin, ast.Slice) and begin.lower is not None and is_open:
        begin = begin.lower
    counted = (loop for loop in loops if isinstance(loop, ast.For) and (is_open or _goes_by_steps(loop, ctx)))
    return any(identifier(begin) in {identifier(part) for part in walk(loop.target)} for loop in counted)


def _goes_by_steps(loop: ast.For, ctx: Context) -> bool:
    source = source_of(loop, ctx)
    call = source if isinstance(source, ast.Call) else None
    return call is not None and identifier(call.func) == "range" and len(call.args) == _RANGE_WITH_STEP
