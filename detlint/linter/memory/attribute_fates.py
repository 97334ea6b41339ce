"""What happens to the memory of an attribute, under local names too, and where what it holds is learned?"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import results_of
from detlint.linter.analysis.returned import returned_by
from detlint.linter.memory.uses import Fate, fate
from detlint.linter.source.names import Binding, FunctionNode
from detlint.linter.source.nodes import identifier, is_own, unless_none, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context

_ALIASES = 3
_STEPS = 2  # of functions


def is_trained(made: ast.AST, ctx: Context) -> bool:
    """`self.weight = nn.Parameter(torch.empty(n))`: such memory is not written in place where the module runs."""
    given = assigned_to(made, ctx)
    call, where = made_where(given, ctx) if given is not None else (None, ctx)
    if not isinstance(call, ast.Call) or given is made:
        return False
    asked = (word.value for word in call.keywords if word.arg == "requires_grad")
    return "torch.nn.Parameter" in where.callees(call) and all(where.truth(value) is Truth.YES for value in asked)


def assigned_to(target: ast.AST, ctx: Context) -> ast.expr | None:
    """Return what a statement gives a target: `y` for `b` of `a, b = x, y`, and that of `b = y if wanted else None`."""
    statement = ctx.statement(target)
    value: ast.expr | None = getattr(statement, "value", None)
    elements = value.elts if isinstance(value, ast.Tuple) else []
    for each in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(each, ast.Tuple) and target in each.elts and len(each.elts) == len(elements):
            value = elements[each.elts.index(target)]
    return unless_none(value)


def made_where(value: ast.expr, ctx: Context, steps: int = _STEPS) -> tuple[ast.expr, Context]:
    """Return `nn.Parameter(torch.empty(n))` of `weight(n)`, a function that returns that, and the context it is in."""
    returned = returned_by(ctx.callees(value), ctx) if isinstance(value, ast.Call) and steps else None
    return made_where(*returned[0], steps - 1) if returned and len(returned) == 1 else (value, ctx)


def fate_under_names(node: ast.expr, ctx: Context, *, trained: bool = False, aliases: int = 0) -> tuple[Fate, ast.expr]:
    """Return what happens to an attribute's memory, under local names too: `weight = self.weight`."""
    outcome, place = fate(node, ctx, learned=trained)
    if outcome is Fate.MARKED:
        return Fate.WRITTEN, place
    if outcome is Fate.RETURNED and trained and place is not node:
        function = ctx.function(place)
        if function is not None and function.name == "forward":
            return Fate.READ, place  # `return self.table[ids]`
    if outcome is Fate.STORED and isinstance(place, ast.Tuple):
        place = next(element for element in place.elts if node in walk(element))
    bindings = _named(place, ctx) if outcome is Fate.STORED else []
    if not bindings or aliases == _ALIASES:
        return outcome, place
    uses = [use for binding in bindings for use in ctx.flow(place).uses(binding)]
    fates = [fate_under_names(use, ctx, trained=trained, aliases=aliases + 1) for use in uses]
    for deciding in (Fate.WRITTEN, Fate.STORED, Fate.ADDED_TO, Fate.READ):
        for found in fates:
            if found[0] is deciding:
                return found
    return Fate.UNTOUCHED, place


def run_by_constructor(info: ClassInfo) -> frozenset[FunctionNode]:
    """Return the methods of a class that its constructor leads to, itself included."""
    inference = info.module.inference
    methods = {name: method for each in reversed(inference.mro(info)) for name, method in each.methods.items()}
    return _led_to(["__init__"] if "__init__" in methods else [], methods)


def _led_to(begin: list[str], methods: Mapping[str, FunctionNode]) -> frozenset[FunctionNode]:
    pending, found = list(begin), set(begin)
    while pending:
        named = {identifier(part) for part in walk(methods[pending.pop()]) if is_own(part)}
        pending += [name for name in named - found if name in methods]
        found.update(pending)
    return frozenset(methods[name] for name in found)


def is_filled_where_given(node: ast.Attribute, outcome: Fate, ctx: Context) -> bool:
    """`nn.init.zeros_(self.head)` of a property that returns `self.weight[:n]`: does who gets a part of it write it?"""
    function = ctx.function(node)
    if outcome is not Fate.RETURNED or function is None:
        return False
    sites = (site for site in results_of(function, ctx) if site is not None)
    return any(fate_under_names(given, where)[0] is Fate.WRITTEN for where, given in sites)


def _named(place: ast.expr, ctx: Context) -> list[Binding]:
    """Return what a statement binds to memory or to its parts: `weight = self.weight`, `q, k = self.bias.chunk(2)`."""
    binding, statement = ctx.binding(place), ctx.parent(place)
    if binding is not None:
        return [binding]
    targets = statement.targets if isinstance(place, ast.Call) and isinstance(statement, ast.Assign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    if not all(isinstance(part, ast.Name) for part in parts):
        return []
    names = (part for part in parts if isinstance(part, ast.Name))
    return [bound for name in names for bound in ctx.module.index.bindings_of(name) if bound.node is name]
