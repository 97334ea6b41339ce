"""DET303: fresh memory is read before anything was written to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.written_here import written_out
from detlint.linter.memory.containers import (
    read_of_elements,
    read_of_entry,
    read_of_list,
    read_of_value,
)
from detlint.linter.memory.made import is_fresh
from detlint.linter.memory.named import NamedMemory, settled, targets_of
from detlint.linter.memory.needs import guards_emptiness
from detlint.linter.memory.promised import is_promised
from detlint.linter.memory.uses import Fate, fate, registered_name
from detlint.linter.memory.weights import is_loaded_weight, unwritten_attribute
from detlint.linter.programs.meta_device import has_form_alone
from detlint.linter.source.nodes import walk

_MAX_NAMES = 3


@check("DET303")
def uninitialized_memory(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent wherever a write may come first, and for memory handed to code that is not read here."""
    if not is_fresh(call, ctx):
        return
    read = _read(call.node, ctx)
    if read is None:
        return
    returned = ctx.parent(read)
    text = ast.unparse(returned if isinstance(returned, ast.Return) and call.node in walk(read) else read)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    yield ctx.finding(call.node, call=f"{call.name}()", read=short, line=ctx.line(read))


def _read(node: ast.expr, ctx: Context, names: int = _MAX_NAMES) -> ast.expr | None:
    """Return the expression that reads the fresh memory `node` before it is written, or None.

    It may be handed on from name to name, up to `names` of them.
    """
    outcome, place = fate(node, ctx)
    if outcome in (Fate.READ, Fate.ADDED_TO, Fate.MARKED):
        return None if is_loaded_weight(place, ctx) else place
    if outcome is Fate.RETURNED:
        return _read_of_result(node, place, ctx, names)
    if outcome is not Fate.STORED:
        return read_of_list(place, ctx) or _read_of_container(node, place, ctx)
    name = registered_name(place)
    if name is not None:
        return unwritten_attribute(name, place, ctx)
    for target in _parts_of(targets_of(place, node, ctx)):
        if isinstance(target, ast.Name):
            found = _read_of_name(target, node, ctx, names - 1)
        elif isinstance(target, ast.Attribute):
            found = unwritten_attribute(target.attr, target, ctx)
        else:
            found = read_of_entry(target, ctx) if isinstance(target, ast.Subscript) else None
        if found is not None:
            return found
    return None


def _read_of_container(node: ast.expr, container: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what reads an element of a list or a dictionary."""
    return read_of_elements(node, container, ctx) or read_of_value(node, container, ctx)


def _read_of_list(use: ast.Name, found: tuple[Fate, ast.expr], ctx: Context) -> ast.expr | None:
    """Return what reads an element of `[memory for _ in layers]`."""
    return read_of_elements(use, found[1], ctx) if found[0] is Fate.WRITTEN else None


def _read_of_result(node: ast.expr, returned: ast.expr, ctx: Context, names: int) -> ast.expr | None:
    """`return torch.empty(n)`: in place of what was left out, as an initial state, or where a caller reads it."""
    function = ctx.function(returned)
    if function is None or guards_emptiness(returned, ctx):
        return None
    if is_promised(node, ctx):
        return returned
    if not names or len(list(ctx.flow(returned).returns())) > 1:
        return None  # it may be what is returned where there is nothing to do, or on other devices
    for site in calls_of(function, ctx):
        if site is None:
            return None
        caller, call = site
        written = written_out(caller.module, call)
        if has_form_alone(call, caller, written if isinstance(written, ast.Call) else None):
            continue
        read = _read_of_call(call, node, returned, caller, names - 1) if caller.callees(call) else None
        if read is not None:
            return read if caller.module is ctx.module else returned
    return None


def _read_of_call(call: ast.Call, node: ast.expr, returned: ast.expr, ctx: Context, names: int) -> ast.expr | None:
    """Return what reads the memory that a call gives, in a tuple perhaps: `h, c = self.init_hidden(n)`."""
    if not isinstance(returned, ast.Tuple):
        return _read(call, ctx, names)
    statement = ctx.parent(call)
    unpacked = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(unpacked, ast.Tuple) or len(unpacked.elts) != len(returned.elts):
        return None
    at = next(at for at, element in enumerate(returned.elts) if node in walk(element))
    target = unpacked.elts[at]
    return _read_of_name(target, call, ctx, names) if isinstance(target, ast.Name) else None


def _parts_of(targets: Iterator[ast.expr]) -> Iterator[ast.expr]:
    """Yield `first` and `second` of `first, second = memory.unbind(0)`, and any other target as it is."""
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _read_of_name(target: ast.Name, made: ast.expr, ctx: Context, names: int) -> ast.expr | None:
    """Return what reads the memory under the name `target`."""
    owner = ctx.module.index.scope_at(target).lookup(target.id)
    bindings = owner.bindings[target.id] if owner is not None else []
    binding = next((found for found in bindings if found.node is target), None)
    flow = ctx.flow(target)
    if binding is None or owner is None or owner.node is not flow.scope.node:
        return None
    if guards_emptiness(target, ctx) or guards_emptiness(made, ctx):
        return None
    outcomes = settled({use: fate(use, ctx) for use in flow.uses(binding)}, ctx)
    if len(outcomes) == 1 and names and {outcome for outcome, _ in outcomes.values()} <= {Fate.STORED, Fate.MOVED}:
        return _read(next(iter(outcomes)), ctx, names)  # under another name, and no longer under this one
    done = [(use, *found) for use, found in outcomes.items() if found[0] is not Fate.UNTOUCHED]
    if _is_all_returned(done, ctx) and len(bindings) == 1:
        found = (_read_of_result(use, place, ctx, names) for use, _, place in done)
        return next((place for place in found if place is not None), None)
    if any(ctx.flow(use) is not flow for use in outcomes):
        return None  # a closure may write it
    if len(outcomes) == 1 and (held := _read_of_list(*next(iter(outcomes.items())), ctx)) is not None:
        return held
    others = [other for other in bindings if other is not binding]
    return NamedMemory(target, made, others, outcomes, ctx).first_read()


def _is_all_returned(done: list[tuple[ast.Name, Fate, ast.expr]], ctx: Context) -> bool:
    """`return memory.select(1, 0), memory.select(1, 1)`: is all that is done with memory to return it, at one place?"""
    returns = {ctx.statement(place) for _, _, place in done}
    return {outcome for _, outcome, _ in done} == {Fate.RETURNED} and len(returns) == 1
