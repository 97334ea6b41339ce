"""Indices made of a list that holds each position once: `torch.tensor([i for i in range(n) if keep[i]])`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.returned import returned_by
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, unpacked
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 6
TENSORS = frozenset({"torch.as_tensor", "torch.tensor", "torch.Tensor", "torch.LongTensor", "torch.from_numpy"})
WRAPPERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})
SAME_ELEMENTS = frozenset({"contiguous", "cuda", "int", "long", "to"})
# What makes a list, a set or an array of different numbers.
_DIFFERENT = frozenset(
    {"builtins.range", "builtins.set", "builtins.frozenset"}
    | {"numpy.arange", "numpy.argsort", "numpy.flatnonzero", "numpy.random.permutation"}
)
# What puts the elements of its argument into a list, or some of them, each once.
_LISTING = frozenset({"builtins.list", "builtins.sorted", "builtins.tuple", "random.sample"})
_ROUNDS = (ast.For, ast.ListComp, ast.SetComp, ast.GeneratorExp)
_LENGTHENING = ("append", "extend", "insert")


def holds_positions(index: ast.expr, ctx: Context) -> bool:
    """Return whether a tensor is made of a list of positions: `torch.tensor(rows)` after `rows.append(i)` in a loop.

    The list may be one of several that a dict holds: `groups.setdefault(key, []).append(i)`. One that is written out
    holds different numbers, or a single element: `torch.tensor([0, 1])`, `torch.tensor([rank])`.
    """
    rows = _listed(index, ctx)
    return rows is not None and _lists_positions(*rows)


def _lists_positions(rows: ast.expr, ctx: Context, calls: int = 2) -> bool:
    if isinstance(rows, (ast.List, ast.Tuple)):
        return _are_different(rows.elts, ctx)
    if isinstance(rows, ast.ListComp):
        return len(rows.generators) == 1 and _counts(rows.elt, ctx)
    if isinstance(rows, ast.IfExp):
        return all(_lists_positions(part, ctx, calls) for part in (rows.body, rows.orelse))
    if isinstance(rows, ast.Call):
        names = ctx.callees(rows)
        if not _LISTING.isdisjoint(names):
            return bool(rows.args) and _lists_positions(rows.args[0], ctx, calls)
        return not _DIFFERENT.isdisjoint(names)
    if isinstance(rows, ast.Subscript):
        return isinstance(rows.slice, ast.Slice) and _lists_positions(rows.value, ctx, calls)
    if not isinstance(rows, ast.Name):
        return isinstance(rows, ast.SetComp)
    found = ctx.module.definitions(rows)
    if len(found) != 1:
        return False
    if isinstance(found[0].node, ast.arg):
        return calls > 0 and _gets_positions(found[0], ctx, calls - 1)
    added = _added_to(rows, ctx)
    if _holder(rows, ctx) is not None:
        return bool(added) and all(_adds_position(call, ctx) for call in added)
    return not added and calls > 0 and _is_set_to_positions(found[0], ctx, calls - 1)


def _is_set_to_positions(binding: Binding, ctx: Context, calls: int) -> bool:
    """`rows = [i for …]`, `rows = choose(n)`, `rows, others = split(n)` of a function that returns such lists."""
    value = binding.value
    if value is None or binding.kind is not BindingKind.ASSIGN:
        return False
    if not binding.index and _lists_positions(value, ctx, calls):
        return True
    returned = returned_by(ctx.callees(value), ctx) if isinstance(value, ast.Call) else None
    return bool(returned) and all(_has_positions(made, binding.index, inside, calls) for made, inside in returned or ())


def _has_positions(made: ast.expr, place: tuple[int, ...], ctx: Context, calls: int) -> bool:
    """Does what a function returns hold positions, or one place of it: `return rows, others`?"""
    for at in place:
        if not isinstance(made, (ast.Tuple, ast.List)) or not -1 < at < len(made.elts):
            return False
        made = made.elts[at]
    return _lists_positions(made, ctx, calls)


def _gets_positions(parameter: Binding, ctx: Context, calls: int) -> bool:
    """Does each call in the project pass a list of positions, or leave a parameter at None by default?"""
    function = parameter.scope.node
    optional = _is_none(parameter.value)
    called = False
    for site in calls_of(function, ctx) if isinstance(function, FUNCTIONS) else ():
        if site is None or not isinstance(function, FUNCTIONS):
            return False
        inside, call = site
        passed = argument_of(function, parameter.name, call, skip_self=True)
        if passed is None and not (optional and _writes_all_out(call)):
            return False
        if passed is not None and not _lists_positions(passed, inside, calls):
            return False
        called = called or passed is not None
    return called


def _writes_all_out(call: ast.Call) -> bool:
    return not any(isinstance(argument, ast.Starred) for argument in call.args) and all(k.arg for k in call.keywords)


def _listed(index: ast.expr, ctx: Context) -> tuple[ast.expr, Context] | None:
    """Return the list that a tensor is made of, seen through names, helpers, conversions and copies to a device."""
    for _ in range(_MAX_STEPS):
        before = stands_for(index, ctx)
        if len(before) == 1 and not before[0].place:
            index, ctx, _ = before[0]
        elif not isinstance(index, ast.Call):
            return None
        elif index.args and TENSORS.intersection(ctx.callees(index)):
            return index.args[0], ctx
        elif index.args and WRAPPERS.intersection(ctx.callees(index)):
            index = index.args[0]
        elif isinstance(index.func, ast.Attribute) and index.func.attr in SAME_ELEMENTS:
            index = index.func.value
        else:
            return None
    return None


def _is_none(node: ast.expr | None) -> bool:
    """A tensor that is None is no index: `index = None` before `if rows is not None: index = torch.tensor(rows)`."""
    return isinstance(node, ast.Constant) and node.value is None


def _are_different(elements: list[ast.expr], ctx: Context) -> bool:
    if any(isinstance(element, ast.Starred) for element in elements):
        return False
    numbers = [ctx.constant(element) for element in elements]
    return len(elements) == 1 or (all(isinstance(n, int) for n in numbers) and len(set(numbers)) == len(numbers))


def _added_to(rows: ast.Name, ctx: Context) -> list[ast.Call]:
    """Return the calls that put something into a list, or into one of those that a dict holds."""
    holder, index = _holder(rows, ctx) or rows.id, ctx.module.index
    owner = index.scope_at(rows).lookup(holder)
    return [
        call
        for name in _LENGTHENING
        for call in index.calls_by_name.get(name, ())
        if isinstance(call.func, ast.Attribute)
        and _root(call.func.value) == holder
        and index.scope_at(call).lookup(holder) is owner
    ]


def _adds_position(call: ast.Call, ctx: Context) -> bool:
    return identifier(call.func) == "append" and len(call.args) == 1 and _counts(call.args[0], ctx)


def _holder(rows: ast.Name, ctx: Context) -> str | None:
    """Return the name of the list itself, or of the dict that a loop takes it from."""
    found = ctx.module.definitions(rows)
    if len(found) != 1 or found[0].value is None:
        return None
    value = found[0].value
    if found[0].kind is BindingKind.ITERATION:
        value = only_value(ctx.module, value) or value
    else:
        value = unpacked(found[0]) or value
    if found[0].kind is BindingKind.ITERATION and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        items = (value.func.attr, found[0].index) in (("items", (1,)), ("values", ()))
        return _root(value.func.value) if items else None
    return rows.id if isinstance(value, ast.List) and not value.elts else None


def _root(node: ast.expr) -> str | None:
    """`groups` in `groups[key]` and `groups.setdefault(key, [])`."""
    while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _counts(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Is it the counter of a loop over `range(…)` or `enumerate(…)`, or one moved on: `offset + i`?"""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        sides = ((node.left, node.right), (node.right, node.left))
        return any(_counts(counter, ctx, steps) and _stays(other, counter, ctx) for counter, other in sides)
    found = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    if len(found) != 1 or found[0].value is None:
        return False
    if found[0].kind is not BindingKind.ITERATION:
        made = only_value(ctx.module, node) if steps else None
        return made is not None and _counts(made, ctx, steps - 1)
    rounds = only_value(ctx.module, found[0].value) or found[0].value
    if not isinstance(rounds, ast.Call):
        return False
    names = ctx.callees(rounds)
    return ("builtins.enumerate" in names and found[0].index == (0,)) or "builtins.range" in names


def _stays(offset: ast.expr, counter: ast.expr, ctx: Context) -> bool:
    """Is an offset the same in each round of the loop that counts: a number, or a name that is set before the loop?"""
    if isinstance(ctx.constant(offset), int):
        return True
    counted = ctx.module.definitions(counter) if isinstance(counter, ast.Name) else ()
    loops = [around for around in ctx.ancestors(counted[0].node) if isinstance(around, _ROUNDS)] if counted else []
    found = ctx.module.definitions(offset) if isinstance(offset, ast.Name) else ()
    return bool(found and loops) and all(loops[0] not in ctx.ancestors(binding.node) for binding in found)
