"""Is each element stored under its own name, in a file or a dict? Then in any order the same is there in the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.effects import LoopEffects
from detlint.linter.order.loop import bindings_of
from detlint.linter.source.names import FUNCTIONS, FunctionNode, by_place
from detlint.linter.source.nodes import arguments_of, identifier, stored_names, walk
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_CALLS = 3  # that a name is followed through
_SHARED = frozenset({"parent", "parents", "suffix", "dirname", "exists", "isfile", "isdir", "getsize"})
_TEXTS = frozenset({"format", "join", "replace", "removesuffix", "split", "rsplit", "str", "strip", "with_name"})
_COPYING = frozenset({"copy", "copy2", "copyfile", "move", "rename", "symlink", "symlink_to", "link"})
_ENDING = re.compile(r"\.\w+$")
_PATHS = ("os.path.", "pathlib.", "builtins.str", "builtins.open")


def stores_under_own_name(call: ast.Call, element: Collection[str], ctx: Context, calls: int = _MOST_CALLS) -> Truth:
    """Does a function of the project store what it makes of an element, and under a name made of that one alone?

    No where it stores anything under another name, or does something else that depends on the order of calls.
    """
    if _stores(call, ctx):
        return (
            Truth.YES
            if not _adds_text(call) and any(_is_made_of(place, element, ctx) for place in _places(call, ctx))
            else Truth.NO
        )
    if identifier(call.func) in order_table().methods["removing"] and _is_made_of(call, element, ctx, known=True):
        return Truth.YES
    stored = Truth.UNKNOWN
    for owner, function in functions_called(ctx.inference, call) if calls else ():
        is_method = owner.index.class_at(function) is not None
        given = (part for part in arguments_of(call) if _is_made_of(part, element, ctx))
        names = {parameter_given(function, call, part, skip_self=is_method) for part in given} - {None}
        found = _stored_by(function, frozenset(name for name in names if name is not None), ctx.elsewhere(owner), calls)
        if found is Truth.NO:
            return Truth.NO
        stored = found if stored is Truth.UNKNOWN else stored
    return stored


def is_run_for_each(worker: ast.expr, ctx: Context) -> bool:
    """Is this a function of the project that stores what it makes of its first argument under a name of that one?"""
    found = [ctx.module.project.definition(name) for name in ctx.resolve(worker)]
    return bool(found) and all(
        each is not None
        and isinstance(each[1], FUNCTIONS)
        and _stored_by(each[1], frozenset(by_place(each[1].args)[:1]), ctx.elsewhere(each[0]), _MOST_CALLS) is Truth.YES
        for each in found
    )


def _stored_by(function: FunctionNode, got: frozenset[str], ctx: Context, calls: int) -> Truth:
    if LoopEffects(OrderTracer(ctx.module), function, got, frozenset()).destination() is not None:
        return Truth.NO
    return _stored_in(function, made_names(function, got, ctx), ctx, calls)


def _stored_in(function: FunctionNode, names: frozenset[str], ctx: Context, calls: int) -> Truth:
    stored = Truth.UNKNOWN
    for part in walk(function):
        if isinstance(part, ast.Assign) and _is_entry_of(part.targets[0], names, ctx):
            stored = Truth.YES
        if isinstance(part, ast.Constant) and _adds_text(part):
            return Truth.NO
        if not isinstance(part, ast.Call):
            continue
        found = stores_under_own_name(part, names, ctx, calls - 1)
        if found is Truth.NO:
            return found
        stored = found if stored is Truth.UNKNOWN else stored
    return stored


def _adds_text(node: ast.AST) -> bool:
    """`f"cat {path} >> {target}"`."""
    texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and ">>" in text for text in texts)


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
    if identifier(call.func) in _COPYING and call.args and _names_file(call.args[-1]):
        return call.args[-1:]  # `shutil.copy(path, "latest.pt")`, not into a folder
    return arguments_of(call)


def _names_file(place: ast.expr) -> bool:
    """`"latest.pt"`, `out / f"{path.stem}.wav"`."""
    texts = (part.value for part in ast.walk(place) if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and _ENDING.search(text) for text in texts)


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


def _is_made_of(node: ast.expr, names: Collection[str], ctx: Context, *, known: bool = False) -> bool:
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
    known = known or called in _TEXTS or any(name.startswith(_PATHS) for name in ctx.callees(node))
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    parts = [*receiver, *arguments_of(node)]
    return known and called not in _SHARED and any(_is_made_of(part, names, ctx) for part in parts)
