"""Is each element stored under its own name, in a file or a dict? Then in any order the same is there in the end."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.effects import LoopEffects
from detlint.linter.order.form import stored_names
from detlint.linter.order.loop import bindings_of
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_CALLS = 3  # that a name is followed through
_SHARED = frozenset({"parent", "parents", "suffix", "dirname", "exists", "isfile", "isdir", "getsize"})
_TEXTS = frozenset({"format", "join", "replace", "removesuffix", "split", "rsplit", "str", "strip", "with_name"})
_PATHS = ("os.path.", "pathlib.", "builtins.str", "builtins.open")


def stores_under_own_name(call: ast.Call, element: Collection[str], ctx: Context, calls: int = _MOST_CALLS) -> Truth:
    """Does a function of the project store what it makes of an element, and under a name made of that one alone?

    No where it stores anything under another name, or does something else that depends on the order of calls.
    """
    stored = Truth.UNKNOWN
    for owner, function in functions_called(ctx.inference, call):
        where = ctx.elsewhere(owner)
        is_method = owner.index.class_at(function) is not None
        given = (part for part in arguments_of(call) if _is_made_of(part, element, ctx))
        names = {parameter_given(function, call, part, skip_self=is_method) for part in given} - {None}
        got = frozenset(name for name in names if name is not None)
        if LoopEffects(OrderTracer(owner), function, got, frozenset()).destination() is not None:
            return Truth.NO
        found = _stored_in(function, made_names(function, got, where), where, calls)
        if found is Truth.NO:
            return Truth.NO
        stored = found if stored is Truth.UNKNOWN else stored
    return stored


def _stored_in(function: FunctionNode, names: frozenset[str], ctx: Context, calls: int) -> Truth:
    stored = Truth.UNKNOWN
    for part in walk(function):
        if isinstance(part, ast.Assign) and _is_entry_of(part.targets[0], names, ctx):
            stored = Truth.YES
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and ">>" in part.value:
            return Truth.NO  # `os.system(f"cat {path} >> {target}")`
        if not isinstance(part, ast.Call):
            continue
        if not _stores(part, ctx):
            found = stores_under_own_name(part, names, ctx, calls - 1) if calls else Truth.UNKNOWN
        else:
            found = Truth.YES if any(_is_made_of(place, names, ctx) for place in _places(part, ctx)) else Truth.NO
        if found is Truth.NO:
            return found
        stored = found if stored is Truth.UNKNOWN else stored
    return stored


def _is_entry_of(target: ast.expr, names: frozenset[str], ctx: Context) -> bool:
    """`self.buffers[device] = buffer`."""
    return isinstance(target, ast.Subscript) and _is_made_of(target.slice, names, ctx)


def _stores(call: ast.Call, ctx: Context) -> bool:
    """`image.save(path)`, `soundfile.write(path, wave)`, `open(path, "w")`, `subprocess.run(["sox", path, out])`."""
    if not order_table().functions["running"].isdisjoint(ctx.callees(call)):
        return True
    methods = order_table().methods
    name = identifier(call.func)
    if name == "open":
        modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return not all(isinstance(mode, ast.Constant) and str(mode.value).startswith("r") for mode in modes)
    return name in methods["storing"] | methods["writing"]


def _places(call: ast.Call, ctx: Context) -> list[ast.expr]:
    """Return what may say where a call stores something: the file itself, where its method writes the next line."""
    method = call.func if isinstance(call.func, ast.Attribute) else None
    if method is not None and method.attr in order_table().methods["writing"] and not ctx.resolve(method.value):
        return [method.value]
    return arguments_of(call)


def made_names(body: FunctionNode | ast.For, names: frozenset[str], ctx: Context) -> frozenset[str]:
    """Return `names` and those that a function or a loop gives to texts, paths and files made of them."""
    made = [pair for node in walk(body) for pair in bindings_of(node)]
    found, size = set(names), -1
    while len(found) != size:
        size = len(found)
        for target, value in made:
            if value is not None and _is_made_of(value, found, ctx):
                found |= stored_names(target)
    return frozenset(found)


def _is_made_of(node: ast.expr, names: Collection[str], ctx: Context) -> bool:
    """`path`, `out / path.name`, `f"{path.stem}.png"`, `os.path.join(out, os.path.basename(path))`: not its folder."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.JoinedStr):
        fields = (part.value for part in node.values if isinstance(part, ast.FormattedValue))
        return any(_is_made_of(part, names, ctx) for part in fields)
    if isinstance(node, ast.BinOp):
        return any(_is_made_of(side, names, ctx) for side in (node.left, node.right))
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        shared = isinstance(node, ast.Attribute) and node.attr in _SHARED
        return not shared and _is_made_of(node.value, names, ctx)
    if not isinstance(node, ast.Call):
        return False
    called = identifier(node.func)
    known = called in _TEXTS or any(name.startswith(_PATHS) for name in ctx.callees(node))
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    parts = [*receiver, *arguments_of(node)]
    return known and called not in _SHARED and any(_is_made_of(part, names, ctx) for part in parts)
