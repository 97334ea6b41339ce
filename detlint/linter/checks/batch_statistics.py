"""Normalisation by the statistics of the batch at hand, whatever the mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.built import is_anew_at_each_call
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.dicts import written_items
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.spread import spread
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.dropout_rates import all_callers_say
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.left_on import is_called_in_training_only, left_on
from detlint.linter.programs.training import holds_in_eval_only, named_for_training, spared_by_mode, trains
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk

_LOSS = re.compile(r"(^|_)loss(_|$)", re.IGNORECASE)


@check("DET205")
def batch_statistics_at_inference(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the mode or the caller decides, and where weights rather than samples are normalised."""
    reason = _reason(call, ctx)
    if spared_by_mode(ctx.module, call.node):
        return
    function = ctx.function(call.node)
    if not reason:
        yield from _left_on(call, ctx)
        return
    if function is not None and (trains(function) or named_for_training(function) or _is_loss(function, ctx)):
        return
    if function is not None and is_called_in_training_only(function, ctx):
        return
    yield ctx.finding(call.node, call=call.name.rpartition(".")[2], reason=reason)


@check_file("DET205")
def options_without_statistics(ctx: Context) -> Iterator[Finding]:
    """`build(norm_op=nn.BatchNorm2d, norm_op_kwargs={"track_running_stats": False})`: options beside their layer."""
    index = ctx.module.index
    for options in (*index.of_type(ast.Dict), *index.calls_by_name.get("dict", ())):
        track = written_items(ctx.module, options)
        value = track.get("track_running_stats") if track else None
        if value is None or not _is_off(value, ctx):
            continue
        layer = next((name for call in _given_to(options, ctx) for name in _batch_norms(call, ctx)), "")
        if layer:
            yield ctx.finding(options, call=layer.rpartition(".")[2], reason="it keeps no running statistics")


@check("DET205", calls={"__init__", "partial"})
def layers_without_statistics(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`super().__init__(n, track_running_stats=False)` of a derived layer, `norm=partial(nn.BatchNorm2d, …)`."""
    track = next((given.value for given in call.keywords if given.arg == "track_running_stats"), None)
    if track is None or truth_by_default(track, ctx) is not Truth.NO:
        return
    layer = next(iter(_derived_from(call, ctx) if identifier(call.func) == "__init__" else _made_ready(call, ctx)), "")
    if layer:
        yield ctx.finding(call, call=layer.rpartition(".")[2], reason="it keeps no running statistics")


@check("DET205", nodes=(ast.Assign,))
def statistics_taken_away(statement: ast.Assign, ctx: Context) -> Iterator[Finding]:
    """`layer.running_mean = None`, of a layer of batch normalisation: what it has none of, it takes from the batch."""
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute) or target.attr != "running_mean" or is_test_file(ctx.module):
        return
    layer = _batch_norm_at(target.value, ctx) if ctx.constant(statement.value) is None else ""
    if layer:
        yield ctx.finding(statement, call=layer.rpartition(".")[2], reason="its running statistics are taken away")


def _batch_norm_at(node: ast.expr, ctx: Context) -> str:
    """Return what kind of batch normalisation a layer is: made so in sight, or asked for by `isinstance`."""
    made = [value.type for value in ctx.values(node)]
    for test, holds in ctx.module.index.conditions_around(node):
        if holds and isinstance(test, ast.Call) and "builtins.isinstance" in ctx.callees(test) and len(test.args) == 2:
            kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
            asked = ast.unparse(test.args[0]) == ast.unparse(node)
            made += [name for kind in kinds for name in ctx.resolve(kind) if asked]
    return next((name for name in made if "BatchNorm" in name and name in ctx.rule.triggers_by_name), "")


def _derived_from(call: ast.Call, ctx: Context) -> Iterator[str]:
    """Yield the layer whose `__init__` a class calls, if it is one of batch normalisation."""
    owner = ctx.module.index.class_at(call)
    bases = ctx.inference.external_bases(ctx.inference.class_info(owner)) if owner is not None else ()
    return (base for base in bases if "BatchNorm" in base and base in ctx.rule.triggers_by_name)


def _made_ready(call: ast.Call, ctx: Context) -> Iterator[str]:
    """Yield the layer that a `partial` is made for: whoever calls it makes one of those."""
    return _batch_norms(call, ctx) if "functools.partial" in ctx.resolve(call.func) else iter(())


def _given_to(options: ast.expr, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that get options, at once or under the name that a function gives them."""
    statement = ctx.parent(options)
    names = [identifier(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []
    uses = [use for name in names for use in ctx.module.index.names_used.get(name, ())]
    for use in [options, *(use for use in uses if ctx.function(use) is ctx.function(options))]:
        parent = ctx.parent(use)
        around = ctx.parent(parent) if isinstance(parent, ast.keyword) and parent.arg else parent
        if isinstance(around, ast.Call) and around.func is not use:
            yield around


def _batch_norms(call: ast.Call, ctx: Context) -> Iterator[str]:
    names = {name for argument in arguments_of(call) for name in ctx.inference.resolve(argument)}
    known = {trigger.name for trigger in ctx.rule.triggers}
    return (name for name in sorted(names & known) if "BatchNorm" in name)


def _left_on(call: Call, ctx: Context) -> Iterator[Finding]:
    """`def norm(x, mean, var, training=True):`, which a forward pass calls without the mode."""
    knows = any(parameter.name == "training" for parameter in call.trigger.parameters)
    for where, site in left_on(call.argument("training").value, ctx) if knows else ():
        reason = f"{ctx.line(site, where.module)} leaves its mode of training on"
        here = where.module is ctx.module
        yield ctx.finding(
            site if here else call.node, call=identifier((site if here else call.node).func), reason=reason
        )


def _reason(call: Call, ctx: Context) -> str:
    if call.name.endswith(".instance_norm"):
        statistics = call.argument("running_mean").value
        kept = statistics is not None and ctx.constant(statistics) is not None
        always = ctx.truth(call.argument("use_input_stats").value) is Truth.YES
        return "its running statistics are never used" if kept and always else ""
    if call.name.endswith(".batch_norm"):
        if _is_weight(call.argument("input").value) or _standardises(call, ctx):
            return ""
        training = call.argument("training").value
        if training is not None and holds_in_eval_only(training):
            return "training is True where nothing trains"
        return "training is always True" if ctx.truth(training) is Truth.YES else ""
    if _keeps_none(call, ctx):
        return "it keeps no running statistics"
    function = ctx.function(call.node)
    if function is not None and not is_test_file(ctx.module) and is_anew_at_each_call(call.node, function, ctx):
        return "it is built where it is applied, so model.eval() never reaches it"
    return ""


def _keeps_none(call: Call, ctx: Context) -> bool:
    """Is `track_running_stats` off in the call, in the options that it spreads, or unless whoever builds it says so?"""
    track = call.argument("track_running_stats")
    if track.value is not None:
        around = (part for part in ctx.ancestors(track.value) if isinstance(part, ast.Call) and part is not call.node)
        if any("functools.partial" in ctx.resolve(part.func) for part in around):
            return False  # it is reported there, once
        return _is_off(track.value, ctx) or all_callers_say(track.value, ctx, _is_off)
    found = spread("track_running_stats", call.node, ctx) if track.hidden else None
    return found is not None and truth_by_default(*found) is Truth.NO


def _is_off(track: ast.expr, ctx: Context) -> bool:
    return truth_by_default(track, ctx) is Truth.NO


def _standardises(call: Call, ctx: Context) -> bool:
    """Without statistics to keep, outside a class or for targets without gradients, it standardises as losses do."""
    kept = call.argument("running_mean").value
    if kept is None or ctx.constant(kept) is not None:
        return False
    return ctx.module.index.class_at(call.node) is None or without_gradients(ctx.module, call.node)


def _is_loss(function: FunctionNode, ctx: Context) -> bool:
    """`return loss`, of a function by such a name outside a layer: losses standardise by the batch, and never infer."""
    if not _LOSS.search(function.name) or ctx.module.index.class_at(function) is not None:
        return False
    results = [part.value for part in walk(function) if isinstance(part, ast.Return)]
    return bool(results) and not any(isinstance(result, (ast.Tuple, ast.Dict, ast.List)) for result in results)


def _is_weight(node: ast.expr | None) -> bool:
    """Weight standardisation borrows batch_norm to normalise a kernel."""
    if node is None:
        return False
    return any("weight" in identifier(part) for part in ast.walk(node))
