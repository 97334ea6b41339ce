"""What does a kernel of Triton do with memory that it is launched on: `add_rows[grid](x, sums, n)`?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import parameter_given
from detlint.linter.programs.compiled_branches import is_compiled_out
from detlint.linter.programs.configurations import tried
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import decorating, identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_LANGUAGE = "triton.language."
_TUNES = "triton.autotune"
_DECORATORS = frozenset({"triton.jit", "triton.heuristics", _TUNES})
# What may clear memory before a kernel runs: options of the decorator, and of what it tries.
_CLEARING = frozenset({"reset_to_zero", "pre_hook", "restore_value"})
# They give the same memory, from another place on or as a block.
_POINTING = frozenset({"advance", "make_block_ptr", "make_tensor_descriptor", "max_contiguous", "multiple_of", "to"})
_POINTERS = ("pointer", "base", "input")  # parameters that pointers are given to by name
_DEPTH = 2  # functions that a kernel calls in turn


class _Access(Enum):
    """What a kernel does at one place with memory that it is given."""

    LOADS = "load"
    UPDATES = "atomic"  # goes on from what is there, in one step
    STORES = "store"
    UNKNOWN = "unknown"  # it may store


_ACCESSES = {"load": _Access.LOADS, "store": _Access.STORES, "atomic_xchg": _Access.STORES} | {
    f"atomic_{name}": _Access.UPDATES for name in ("add", "max", "min", "and", "or", "xor", "cas")
}
_Done = tuple[_Access, ast.AST]


def is_read_by_kernel(node: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """Return whether a kernel of the project goes on from what is in memory that it is given.

    So `tl.atomic_add(sums + columns, x)` in one that stores nothing there, and a `tl.load` that it always comes by, and
    before any store. What is not read here may write it, as may a decorator; what it loads from an attribute may be a
    weight, which is there once a model is loaded.
    """
    kernel = call.func.value if isinstance(call.func, ast.Subscript) else None
    names = ctx.resolve(kernel) if kernel is not None else ()
    found = ctx.module.project.definition(names[0]) if len(names) == 1 else None
    if found is None or not isinstance(found[1], FUNCTIONS):
        return False
    function, inside = found[1], ctx.elsewhere(found[0])
    if not _runs_on_what_it_gets(function, inside):
        return False
    access = _first(function, call, node, inside, _DEPTH)
    return access is _Access.UPDATES or (access is _Access.LOADS and not isinstance(node, ast.Attribute))


def _runs_on_what_it_gets(kernel: FunctionNode, ctx: Context) -> bool:
    """Is it a kernel of which nothing clears memory first: `@triton.autotune(…, reset_to_zero=["sums"])`?"""
    for decorator in kernel.decorator_list:
        names = ctx.resolve(decorating(decorator))
        if not names or not _DECORATORS.issuperset(names):
            return False
        if _TUNES in names and isinstance(decorator, ast.Call):
            configured = tried(decorator, ctx)
            options = [*configured, *(keyword.arg for keyword in decorator.keywords)]
            if not configured or not _CLEARING.isdisjoint(options):
                return False
    return bool(kernel.decorator_list)


def _first(function: FunctionNode, call: ast.Call, node: ast.expr, ctx: Context, depth: int) -> _Access | None:
    """Return what a function does first with memory that a call gives it; None if it leaves the memory alone."""
    name = parameter_given(function, call, node, skip_self=False)
    bindings = ctx.module.index.scopes[function].bindings[name] if name is not None else []
    if not bindings or not depth:
        return _Access.UNKNOWN
    done = [each for each in _done(function, bindings[0], ctx, depth) if not is_compiled_out(each[1], ctx)]
    if any(access is _Access.UNKNOWN for access, _ in done):
        return _Access.UNKNOWN
    stores = [place for access, place in done if access is _Access.STORES]
    reads = [each for each in done if each[0] is not _Access.STORES]
    first = next((access for access, place in reads if _comes_first(access, place, stores, ctx)), None)
    if first is not None or not done:
        return first
    return _Access.STORES if stores else _Access.UNKNOWN


def _comes_first(access: _Access, place: ast.AST, stores: list[ast.AST], ctx: Context) -> bool:
    """Does nothing store before memory is read at a place, whatever a launch asks for?

    What a condition leaves out is not read there. An update goes on from some place at least, unless an option of the
    kernel is asked for: `if COUNTED: tl.atomic_add(count, 1)`.
    """
    conditions = [test for test, _ in ctx.module.index.conditions_around(place)]
    if access is _Access.UPDATES and not stores:
        return not any(_asks_for_option(test, ctx) for test in conditions)
    return not conditions and not any(ctx.flow(place).path(store, place) for store in stores)


def _asks_for_option(test: ast.expr, ctx: Context) -> bool:
    names = (part for part in walk(test) if isinstance(part, ast.Name))
    return any(each.kind is BindingKind.PARAMETER for name in names for each in ctx.module.definitions(name))


def _done(function: FunctionNode, given: Binding, ctx: Context, depth: int) -> Iterator[_Done]:
    """Yield what a function does with memory that it is given, also by other names: `rows = x + start`."""
    flow, pending = ctx.flow(function.body[0]), [given]
    for binding in pending:
        moved = [each for each in binding.of_same_name if each.kind is BindingKind.AUGMENTED]  # `x += start`
        for use in flow.uses(binding):
            pointer = _as_far_as_it_points(use, ctx)
            other = ctx.binding(pointer)
            if other is not None:
                moved.append(other)
            else:
                yield from _access(pointer, ctx, depth)
        pending += [each for each in moved if each not in pending]


def _as_far_as_it_points(node: ast.expr, ctx: Context) -> ast.expr:
    """Return the whole of `tl.make_block_ptr(base=x + start, …)` for `x`."""
    while True:
        parent = ctx.parent(node)
        around = ctx.parent(parent) if isinstance(parent, (ast.keyword, ast.Attribute)) else parent
        if isinstance(parent, ast.BinOp) or (isinstance(parent, ast.IfExp) and parent.test is not node):
            node = parent
        elif isinstance(around, ast.Call) and identifier(around.func) in _POINTING and _points(node, around):
            node = around
        else:
            return node


def _points(node: ast.expr, call: ast.Call) -> bool:
    """Is it what a call goes by: `x` of `tl.load(x, mask)`, `tl.load(pointer=x)` and `x.load(place)`?"""
    if isinstance(call.func, ast.Attribute) and call.func.value is node:
        return True
    named = [keyword.value for keyword in call.keywords if keyword.arg in _POINTERS]
    return node in (*call.args[:1], *named)


def _access(pointer: ast.expr, ctx: Context, depth: int) -> Iterator[_Done]:
    """Yield what is done with the memory that an expression points to, nothing where only its type is asked for."""
    parent = ctx.parent(pointer)
    around = ctx.parent(parent) if isinstance(parent, (ast.keyword, ast.Attribute)) else parent
    if isinstance(parent, ast.Attribute) and not (isinstance(around, ast.Call) and around.func is parent):
        return  # `x.dtype.element_ty`
    if isinstance(parent, (ast.Compare, ast.UnaryOp, ast.If, ast.IfExp, ast.Assert)):
        return  # `if bias is not None:`
    if not isinstance(around, ast.Call):
        yield _Access.UNKNOWN, pointer
        return
    word, names = identifier(around.func), ctx.callees(around)
    method = isinstance(parent, ast.Attribute)
    if word in _ACCESSES and _points(pointer, around) and (method or f"{_LANGUAGE}{word}" in names):
        yield _ACCESSES[word], around
        return
    access: _Access | None = _Access.UNKNOWN
    definition = ctx.module.project.definition(names[0]) if len(names) == 1 else None
    if definition is not None and isinstance(definition[1], FUNCTIONS):
        access = _first(definition[1], around, pointer, ctx.elsewhere(definition[0]), depth - 1)
    if access is not None:
        yield access, around
