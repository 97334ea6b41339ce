"""Moves to the CPU by functions of a project: those that hand `non_blocking` on, and those that are called `cpu`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.memory.host_copies import is_cpu, is_of_cpu, is_on
from detlint.linter.memory.waits import WAITING_METHODS
from detlint.linter.source.names import BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def copies_as_told(call: ast.Call, ctx: Context) -> bool:
    """`move(output, device="cpu", non_blocking=True)` of a function that tells a tensor both, and does not wait."""
    method = isinstance(call.func, ast.Attribute)
    for _, function in functions_called(ctx.inference, call):
        if waits(function):
            continue
        for inner in (part for part in walk(function) if isinstance(part, ast.Call)):
            told = _told(inner)
            given = [argument_of(function, name, call, skip_self=method) for name in told or ()]
            if (
                given
                and given[1] is not None
                and given[0] is not None
                and is_on(given[1], ctx)
                and is_cpu(given[0], ctx)
            ):
                return True
    return False


def told_to_cpu(copy: ast.Call, ctx: Context) -> Iterator[tuple[Context, ast.Call]]:
    """Yield the calls `move(output, "cpu")` of the function that returns `x.to(place, non_blocking=True)` at once."""
    function = ctx.function(copy)
    words = {word.arg: word.value for word in copy.keywords}
    place = words.get("device", copy.args[0] if copy.args else None)
    bindings = ctx.module.definitions(place) if isinstance(place, ast.Name) else ()
    told = bool(bindings) and all(binding.kind is BindingKind.PARAMETER for binding in bindings)
    if function is None or not told or not isinstance(place, ast.Name) or not _is_returned(copy, ctx):
        return
    method = ctx.module.index.class_at(function) is not None
    for site in calls_of(function, ctx):
        given = argument_of(function, place.id, site[1], skip_self=method) if site is not None else None
        if site is not None and given is not None and is_cpu(given, site[0]):
            yield from (site,) if not any(is_of_cpu(moved, site[0]) for moved in site[1].args) else ()


def _is_returned(copy: ast.Call, ctx: Context) -> bool:
    """`return x.to(place)`, at once or under a name that nothing else is done with."""
    binding = ctx.binding(copy)
    uses = list(ctx.flow(copy).uses(binding)) if binding is not None else [copy]
    return len(uses) == 1 and isinstance(ctx.parent(uses[0]), ast.Return)


def _told(call: ast.Call) -> tuple[str, str] | None:
    """Return `place` and `flag` of `x.to(place, non_blocking=flag)`."""
    words = {word.arg: word.value for word in call.keywords}
    place = words.get("device", call.args[0] if call.args else None)
    flag = words.get("non_blocking")
    if isinstance(place, ast.Name) and isinstance(flag, ast.Name) and identifier(call.func) == "to":
        return place.id, flag.id
    return None


def is_taken_to_wait(call: ast.Call, ctx: Context) -> bool:
    """Is this in a method `cpu`, as tensors have one, whose callers take it to have waited as theirs does?"""
    function = ctx.function(call)
    return function is not None and function.name == "cpu" and not waits(function)


def waits(function: FunctionNode) -> bool:
    """Does a function call anything that waits for a device?"""
    calls = (part for part in walk(function) if isinstance(part, ast.Call))
    return any(identifier(call.func) in WAITING_METHODS for call in calls)
