"""Functional dropout that does not know whether the model trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.built import runs_with_forward
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Argument, Call, Context
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.guards import conditions_met, settled
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.passed import literals_of
from detlint.linter.analysis.program import in_package
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.repairs import Repair, operand, safe, set_argument, unsafe
from detlint.linter.programs.both_modes import runs_in_both_modes
from detlint.linter.programs.dropout_rates import (
    DROPS,
    asks_for_rate,
    is_up_to_callers,
    is_zero,
    steady_rate,
)
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.handed_options import brought_by_forward
from detlint.linter.programs.left_on import left_on
from detlint.linter.programs.training import (
    asks_for_mode,
    depends_on_mode,
    holds_in_eval_only,
    named_for_training,
    spared_by_mode,
    trains,
)
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of, identifier, is_own, unless_none, walk

# A parameter that says how much is dropped, of a function that drops and does no more.
_RATE = re.compile(r"rate|prob|^p$")
# Parameters that say how much is dropped, where it is not `p`.
_ATTENTION_RATE = "dropout_p"
_RATES = (_ATTENTION_RATE, "drop_prob")


@check("DET202")
def functional_dropout_always_on(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the mode decides, the caller decides, or nothing is dropped."""
    rate = _at_inference(call.argument(_rate(call)).value, ctx)
    if _is_spared(rate, call.node, ctx) or (_knows_modes(call) and _is_left_off(rate, call.node, ctx)):
        return
    function = ctx.function(call.node)
    if (function is not None and trains(function)) or _is_only_checked(call.node, ctx) or _makes_view(call, ctx):
        return
    name = call.name.rpartition(".")[2]
    state = _training_state(call, rate, ctx) if _knows_modes(call) else _attention_state(rate, _rate(call), ctx)
    if _is_told_in_table(call, ctx):
        return
    if state and not (function is not None and _is_called_in_training_only(function, ctx)):
        yield ctx.finding(call.node, repair=_repair(call, ctx), call=name, state=state)
    if call.argument(_rate(call)).hidden and not _knows_modes(call):
        yield from _brought_by_callers(call, ctx)
    if not state and _knows_modes(call):
        for where, site in left_on(_training(call).value, ctx):
            state = f"{ctx.line(site, where.module)} leaves the mode of training on"
            if where.module is ctx.module:
                related = [(ctx.module, call.node, "drops here")]
                yield ctx.finding(site, related=related, call=identifier(site.func), state=state)
            else:
                yield ctx.finding(call.node, call=name, state=state)


@check("DET202", nodes=(ast.keyword,))
def unseen_attention_always_on(keyword: ast.keyword, ctx: Context) -> Iterator[Finding]:
    """`self.attend(q, k, v, dropout_p=self.p)` of a function out of sight: like that of torch it knows no mode."""
    call = ctx.parent(keyword) if keyword.arg == _ATTENTION_RATE else None
    function = ctx.function(keyword.value) if call is not None else None
    if not isinstance(call, ast.Call) or function is None or not runs_with_forward(function, ctx.module):
        return
    rate = _at_inference(keyword.value, ctx)
    if any(map(asks_for_mode, arguments_of(call))) or not _is_unseen_function(call, ctx):
        return
    if _is_spared(rate, call, ctx) or trains(function) or _is_called_in_training_only(function, ctx):
        return
    state = _attention_state(rate, _ATTENTION_RATE, ctx)
    if state:
        yield ctx.finding(call, call=identifier(call.func), state=state)


def _brought_by_callers(call: Call, ctx: Context) -> Iterator[Finding]:
    """`self.attend(q, k, v, dropout_p=self.p)` of a method that hands on to attention what it is given by name."""
    name = call.name.rpartition(".")[2]
    for value, place, where in brought_by_forward(_rate(call), call.node, ctx):
        rate = _at_inference(value, where)
        state = _attention_state(rate, _rate(call), where) if not _is_spared(rate, place, where) else ""
        if state and where.module is ctx.module:
            yield ctx.finding(place, related=[(ctx.module, call.node, "drops here")], call=name, state=state)
        elif state:
            yield ctx.finding(call.node, call=name, state=f"{ctx.line(place, where.module)}: {state}")
            return


def _is_told_in_table(call: Call, ctx: Context) -> bool:
    """`DROPS[kind](x)` of a `partial(F.alpha_dropout, training=True)` that a table holds, where the finding is."""
    called = call.node.func
    made = called if isinstance(called, ast.Subscript) else only_value(ctx.module, called)
    told = call.written is not None and any(keyword.arg == "training" for keyword in call.written.keywords)
    own = {"training", None}.isdisjoint(word.arg for word in call.node.keywords)
    return told and own and isinstance(made, ast.Subscript)


def _is_spared(rate: ast.expr | None, node: ast.expr, ctx: Context) -> bool:
    """Is nothing dropped at inference, for all that is known, or does the mode or the caller decide?"""
    if is_zero(rate, ctx) or spared_by_mode(ctx.module, node):
        return True
    return rate is not None and (
        _is_ruled_out(rate, ctx)
        or depends_on_mode(ctx.module, rate)
        or (not without_gradients(ctx.module, node) and is_up_to_callers(rate, ctx))
    )


def _is_only_checked(node: ast.Call, ctx: Context) -> bool:
    """`out = F.dropout(x, 0.5, True)`, and then `assert out.mean() != 1`: nothing goes on with what is left."""
    binding = ctx.binding(node)
    uses = ctx.flow(node).uses(binding) if binding is not None else (node,)
    statements = [ctx.statement(use) for use in uses]
    return bool(statements) and all(isinstance(statement, ast.Assert) for statement in statements)


def _is_left_off(rate: ast.expr | None, node: ast.Call, ctx: Context) -> bool:
    """`if not deterministic:`, a parameter of the function that is on unless a caller says otherwise, as nobody does.

    An option of the layer, set where it is made, is none that tells training from inference; nor is the rate.
    """
    return any(
        isinstance(test, ast.Name)
        and test.id != identifier(rate)
        and ctx.function(test) is ctx.function(node)
        and truth_by_default(test, ctx) is Truth.of(not holds)
        and all(bool(literal) is not holds for literal in literals_of(test, ctx))
        for test, holds in conditions_met(node, ctx)
    )


def _is_unseen_function(call: ast.Call, ctx: Context) -> bool:
    """Is what is called a function by its name, or given by one, that stands in no file of the project? No layer is."""
    kept = only_value(ctx.module, call.func) if is_own(call.func) else call
    made = unless_none(kept) if kept is not None else None
    names = ctx.callees(made) if isinstance(made, ast.Call) else ctx.resolve(made) if made is not None else ()
    known = ctx.rule.triggers_by_name
    return bool(names) and not any(
        name in known
        or name == "builtins.dict"
        or name.rpartition(".")[2][:1].isupper()
        or ctx.module.project.definition(name) is not None
        for name in names
    )


def _makes_view(call: Call, ctx: Context) -> bool:
    """Edges that are dropped outside of a forward pass make another view of a graph, to train with."""
    function = ctx.function(call.node)
    is_of_graph = call.name.startswith("torch_geometric.")
    return is_of_graph and (function is None or not runs_in_both_modes(function, ctx))


def _is_called_in_training_only(function: FunctionNode, ctx: Context) -> bool:
    """Return whether the mode decides about every call of a helper: `if self.training: x = x * self.mask(x)`.

    The calls of a method may stand in a base class. A function may also be what a name says: `dropout_train`.
    """
    if function.name == "forward":
        return False
    if named_for_training(function):
        return True
    sites = [site for method, where in _overridden(function, ctx) for site in calls_of(method, where)]
    if not any(sites) and _is_offered(function, ctx):
        return True
    return bool(sites) and all(site is not None and _is_for_training(*site) for site in sites)


def _is_offered(function: FunctionNode, ctx: Context) -> bool:
    """`def dropout(inputs, rate, seed=None):` of a package: whether to drop is up to whoever calls it, elsewhere."""
    if ctx.module.index.class_at(function) is not None or not DROPS.match(function.name) or not in_package(ctx.module):
        return False
    required = [parameter.arg for parameter, default in parameters(function.args) if default is None]
    return any(_RATE.search(name) for name in required) and not any(map(asks_for_mode, _names_of(function)))


def _names_of(function: FunctionNode) -> Iterator[ast.expr]:
    return (ast.Name(parameter.arg) for parameter, _ in parameters(function.args))


def _is_for_training(where: Context, site: ast.Call) -> bool:
    """Does a call stand under a condition on the mode, or in a function that says that it trains: `training_step`?"""
    function = where.function(site)
    return spared_by_mode(where.module, site) or (function is not None and named_for_training(function))


def _overridden(function: FunctionNode, ctx: Context) -> Iterator[tuple[FunctionNode, Context]]:
    """Yield a function and, for a method, those of the project's base classes that it stands for."""
    yield function, ctx
    owner = ctx.module.index.class_at(function)
    for ancestor in ctx.inference.mro(ctx.inference.class_info(owner)) if owner is not None else ():
        method = ancestor.methods.get(function.name)
        if method is not None and method is not function:
            yield method, ctx.elsewhere(ancestor.module)


def _repair(call: Call, ctx: Context) -> Repair | None:
    """Tie the call to the module's mode, where it stands in a method of a module."""
    function = ctx.function(call.node)
    owner = ctx.module.index.class_at(call.node)
    if function is None or owner is None or not ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return None
    receiver = function.args.args[0].arg if function.args.args else ""
    if receiver != "self":
        return None
    names = [parameter.name for parameter in call.trigger.parameters]
    if not _knows_modes(call):
        name = _rate(call)
        rate = call.argument(name).value
        value = "0.0" if rate is None else f"{operand(rate)} if self.training else 0.0"
        return safe("tie dropout to self.training", set_argument(call.node, name, value, position=names.index(name)))
    name = "training" if "training" in names else "train"
    # A mode that is written out may be meant so: some networks drop at inference on purpose.
    grade = unsafe if call.argument(name).given else safe
    return grade(
        "tie dropout to self.training", set_argument(call.node, name, "self.training", position=names.index(name))
    )


def _is_ruled_out(rate: ast.expr, ctx: Context) -> bool:
    """`if self.flash:` after `self.flash = self.p == 0.0`, `else` of `if self.p > 0:`: nothing is dropped there."""
    known = settled(rate, ctx)
    if known is not None and is_zero(known, ctx):
        return True
    stored = only_value(ctx.module, rate) if isinstance(rate, ast.Attribute) else None
    return any(
        asks_for_rate(test, rate, ctx)
        or (stored is not None and ctx.function(test) is ctx.function(stored) and asks_for_rate(test, stored, ctx))
        for test, holds in conditions_met(rate, ctx)
        if not holds
    )


def _rate(call: Call) -> str:
    """Return the name of the parameter that says how much is dropped."""
    names = {parameter.name for parameter in call.trigger.parameters}
    return next((name for name in _RATES if name in names), "p")


def _knows_modes(call: Call) -> bool:
    """Has the function a parameter for the mode? Attention has none: what it drops is up to the rate alone."""
    return any(parameter.name in ("training", "train") for parameter in call.trigger.parameters)


def _at_inference(rate: ast.expr | None, ctx: Context) -> ast.expr | None:
    """Return the branch that counts in eval mode: `self.p` of `0.0 if self.training else self.p`."""
    only = only_value(ctx.module, rate) if isinstance(rate, ast.Name) else rate
    evaluates = holds_in_eval_only(only.test) if isinstance(only, ast.IfExp) else None
    if not isinstance(only, ast.IfExp) or evaluates is None:
        return rate
    return only.body if evaluates else only.orelse


def _training(call: Call) -> Argument:
    return call.argument("training" if any(p.name == "training" for p in call.trigger.parameters) else "train")


def _training_state(call: Call, rate: ast.expr | None, ctx: Context) -> str:
    training = _training(call)
    if training.value is not None and holds_in_eval_only(training.value):
        return "training is True where nothing trains"
    if training.value is not None and rate is not None and asks_for_rate(training.value, rate, ctx):
        return "training asks for the rate, not for the mode"
    if training.value is not None and _is_always_true(training.value, ctx):
        return "training is always True"
    if ctx.truth(training.value) is not Truth.YES or _is_told_from_outside(training.value):
        return ""
    return "training is left at its default, True" if training.is_default else "training is always True"


def _is_always_true(training: ast.expr, ctx: Context) -> bool:
    """`self.train`, the method that nobody calls here, and `self.training or True`, whatever the mode is."""
    if isinstance(training, ast.BoolOp) and isinstance(training.op, ast.Or):
        return any(ctx.truth(part) is Truth.YES or _is_always_true(part, ctx) for part in training.values)
    owner = ctx.module.index.class_at(training) if is_own(training) and identifier(training) == "train" else None
    info = ctx.inference.class_info(owner) if owner is not None else None
    return info is not None and ctx.inference.is_module_class(info.name) and "train" not in info.attributes


def _is_told_from_outside(training: ast.expr | None) -> bool:
    """`not batch.inference`: a mode that comes with the input is up to whoever makes that, whatever its default is."""
    parts = (part for part in walk(training) if isinstance(part, ast.Attribute)) if training is not None else ()
    return any(not is_own(part) and asks_for_mode(part) for part in parts)


def _attention_state(rate: ast.expr | None, name: str, ctx: Context) -> str:
    if rate is None:
        return ""
    value = ctx.constant(rate)
    if isinstance(value, (int, float)):
        # What another object holds may be nothing by default only; an attribute of the layer is there to be set.
        return f"{name} is always {value}" if value or is_own(rate) else ""
    steady = steady_rate(rate, ctx)
    return f"{name} is {steady} in both modes" if steady else ""
