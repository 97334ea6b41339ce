"""How much is dropped: is a rate zero, the same in both modes, or what a condition asks for?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import all_callers_give, calls_of, is_set_from_outside
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.written_here import given_by_property
from detlint.linter.programs.left_on import is_called_in_forward, takes_default
from detlint.linter.programs.training import asks_for_mode, depends_on_mode, guarded_by_mode, trains
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, parameters, unpacked
from detlint.linter.source.nodes import decorating, identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# Layers and functions that drop, by their names.
DROPS = re.compile(r"drop_?(out|path|block|connect|layer)|stochastic_?depth", re.IGNORECASE)
# Functions that give a rate back, within limits.
_KEEPS = frozenset({"builtins.float", "builtins.max", "builtins.min"})
# How many variables and calling functions a rate is followed through.
_MAX_STEPS = 6


def is_zero(rate: ast.expr | None, ctx: Context) -> bool:
    value = _literal(rate, ctx)
    return isinstance(value, (int, float)) and value == 0


def _literal(rate: ast.expr | None, ctx: Context) -> object:
    """Return the number that a rate always is; the default of a dataclass's field is up to whoever makes one."""
    fields = rate is not None and any(
        value.module is not None and _is_field(value.node, value.module) for value in ctx.values(rate)
    )
    return MISSING if fields else ctx.constant(rate)


def _is_field(node: ast.AST | None, module: Module) -> bool:
    """`dropout: float = 0.0` in the body of a dataclass."""
    owner = module.index.class_at(node) if node is not None and module.index.function_at(node) is None else None
    return owner is not None and any(identifier(decorating(each)) == "dataclass" for each in owner.decorator_list)


def asks_for_rate(test: ast.expr, rate: ast.expr, ctx: Context) -> bool:
    """Is a condition true whenever anything is dropped: `self.p > 0` for the rate `self.p`, or `bool(self.p)`?"""
    if isinstance(test, ast.IfExp) and ctx.truth(test.body) is Truth.YES:
        return asks_for_rate(test.test, rate, ctx)
    if isinstance(test, (ast.Name, ast.Attribute)):  # `self.active`, after `self.active = self.p > 0`
        behind = only_value(ctx.module, test)
        if behind is not None and not isinstance(behind, (ast.Name, ast.Attribute)):
            stays = isinstance(test, ast.Name) or not is_set_from_outside(test.attr, ctx)
            return stays and asks_for_rate(behind, rate, ctx)
    if isinstance(test, ast.Call) and "builtins.bool" in ctx.callees(test) and len(test.args) == 1:
        return asks_for_rate(test.args[0], rate, ctx)
    if isinstance(test, ast.Compare):
        above = (
            len(test.ops) == 1 and isinstance(test.ops[0], (ast.Gt, ast.NotEq)) and is_zero(test.comparators[0], ctx)
        )
        return above and asks_for_rate(test.left, rate, ctx)
    if not isinstance(test, (ast.Name, ast.Attribute)):
        return False
    behind = only_value(ctx.module, rate)
    written = [ast.unparse(rate), *([ast.unparse(behind)] if behind is not None else [])]
    return ast.unparse(test) in written and (isinstance(test, ast.Name) or is_stored_rate(test, ctx))


def steady_rate(rate: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> str:
    """Return the rate that an expression is in both modes, as it is written: a number, or what `__init__` stored."""
    value = _literal(rate, ctx)
    if value is not MISSING:
        return str(value) if isinstance(value, float) and value > 0 else ""
    if isinstance(rate, (ast.Name, ast.Attribute)) and _stands_in_init(rate, ctx):
        return "" if asks_for_mode(rate) else ast.unparse(rate)
    if isinstance(rate, ast.Attribute):
        given = given_by_property(ctx.module, rate) if steps else None
        if given is not None:
            return steady_rate(given, ctx, steps - 1)
        return ast.unparse(rate) if is_stored_rate(rate, ctx) else ""
    if isinstance(rate, ast.IfExp):
        return steady_rate(rate.body, ctx, steps) if asks_for_rate(rate.test, rate.body, ctx) else ""
    if isinstance(rate, ast.Call) and rate.args and _KEEPS.intersection(ctx.callees(rate)):
        limits = (ctx.constant(other) for other in rate.args[1:])
        return "" if MISSING in limits else steady_rate(rate.args[0], ctx, steps)
    bindings = ctx.module.definitions(rate) if isinstance(rate, ast.Name) and steps else ()
    if len(bindings) != 1:
        return ""
    if bindings[0].kind is BindingKind.PARAMETER:
        return rate_of_callers(bindings[0], ctx, steps)
    behind = unpacked(bindings[0]) if bindings[0].kind is BindingKind.ASSIGN else None
    return steady_rate(behind, ctx, steps - 1) if behind is not None else ""


def _stands_in_init(rate: ast.expr, ctx: Context) -> bool:
    """`self.options = {"dropout_p": config.dropout}` in `__init__`, which is worked out once for both modes."""
    function = ctx.function(rate)
    return function is not None and function.name == "__init__"


def rate_of_callers(parameter: Binding, ctx: Context, steps: int = _MAX_STEPS) -> str:
    """Return what a caller passes for a rate whatever the mode, as it writes it; nothing where none does."""
    function = parameter.scope.node
    if not isinstance(function, FUNCTIONS) or not steps:
        return ""
    for site in calls_of(function, ctx):
        if site is None:
            return ""
        where, call = site
        given = argument_of(function, parameter.name, call, skip_self=isinstance(call.func, ast.Attribute))
        around = where.function(call)
        if guarded_by_mode(where.module, call):
            continue
        if given is None and takes_default(call) and is_called_in_forward(where, call):
            given, where = parameter.value, ctx
        if given is None or depends_on_mode(where.module, given):
            continue
        rate = steady_rate(given, where, steps - 1)
        if rate and not (around is not None and trains(around)):
            return rate
    return ""


def all_callers_say(rate: ast.expr, ctx: Context, holds: Callable[[ast.expr, Context], bool]) -> bool:
    """`thin(x, rate)`: does something hold for what each call of a helper gives for a parameter, and is there any?"""
    binding = next(iter(ctx.module.definitions(rate)), None) if isinstance(rate, ast.Name) else None
    if binding is None or binding.kind is not BindingKind.PARAMETER or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    return binding.scope.node.name != "__init__" and all_callers_give(binding.scope.node, binding.name, ctx, holds)


def is_callers(rate: ast.expr, ctx: Context) -> bool:
    """Return whether the rate is a parameter of the function that is zero unless its caller says otherwise.

    That is no answer where nothing can train: a rate that drops at inference only is none that a mode decides about.
    Nor is it one where a caller says so in both modes, where a layer is made, which is once for both, or where the
    function is told the mode besides: `def attend(q, k, v, dropout_p=0.0, training=False)`.
    """
    if not isinstance(rate, ast.Name):
        return False
    bindings = ctx.module.definitions(rate)
    return (
        bool(bindings)
        and all(
            binding.kind is BindingKind.PARAMETER
            and getattr(binding.scope.node, "name", "") != "__init__"
            and not _is_told_the_mode(binding.scope.node)
            and binding.value is not None
            and is_zero(binding.value, ctx)
            for binding in bindings
        )
        and not rate_of_callers(bindings[0], ctx)
    )


def _is_told_the_mode(function: ast.AST) -> bool:
    names = (argument.arg for argument, _ in parameters(function.args)) if isinstance(function, FUNCTIONS) else ()
    return any(asks_for_mode(ast.Name(name, ast.Load())) for name in names)


def is_up_to_callers(rate: ast.expr, ctx: Context) -> bool:
    """Return whether whoever calls the function decides about a rate, or all who do so go by the mode."""
    return is_callers(rate, ctx) or all_callers_say(rate, ctx, _is_up_to_mode)


def _is_up_to_mode(rate: ast.expr, ctx: Context) -> bool:
    """Return whether the mode decides about a rate, or the caller of its function, or whether it is nothing anyway."""
    return is_zero(rate, ctx) or depends_on_mode(ctx.module, rate) or is_callers(rate, ctx)


def is_stored_rate(rate: ast.Attribute, ctx: Context) -> bool:
    """Return whether an attribute of `self` is a plain number that __init__ stored; the caller's values are his."""
    base: ast.expr = rate
    while isinstance(base, ast.Attribute):
        base = base.value
    if not isinstance(base, ast.Name):
        return False
    if not any(binding.kind is BindingKind.PARAMETER for binding in ctx.module.definitions(base)):
        return False
    owner = ctx.module.index.class_at(rate)
    if owner is None or base.id != "self":
        return False
    first = rate
    while isinstance(first.value, ast.Attribute):
        first = first.value
    return _written_in_init(ctx.inference.class_info(owner), first.attr, ctx)


def _written_in_init(info: ClassInfo, attribute: str, ctx: Context) -> bool:
    """A property, or an attribute set from the mode or outside __init__, may follow the mode."""
    for ancestor in ctx.inference.mro(info):
        if attribute in ancestor.methods:
            return False
    writes = list(ctx.inference.attribute_writes(info, attribute))
    return bool(writes) and all(
        write.method is not None and write.method.name == "__init__" and not asks_for_mode(write.value)
        for _, write in writes
    )
