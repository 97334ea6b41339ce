"""Normalisation by the statistics of the batch at hand, whatever the mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.built import is_anew_at_each_call
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.evaluation import without_gradients
from detlint.linter.programs.training import holds_in_eval_only, named_for_training, spared_by_mode, trains
from detlint.linter.source.nodes import identifier


@check("DET205")
def batch_statistics_at_inference(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where the mode or the caller decides, and where weights rather than samples are normalised."""
    reason = _reason(call, ctx)
    if not reason or spared_by_mode(ctx.module, call.node):
        return
    function = ctx.function(call.node)
    if function is not None and (trains(function) or named_for_training(function)):
        return
    yield ctx.finding(call.node, call=call.name.rpartition(".")[2], reason=reason)


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
    if ctx.truth(call.argument("track_running_stats").value) is Truth.NO:
        return "it keeps no running statistics"
    function = ctx.function(call.node)
    if function is not None and not is_test_file(ctx.module) and is_anew_at_each_call(call.node, function, ctx):
        return "it is built where it is applied, so model.eval() never reaches it"
    return ""


def _standardises(call: Call, ctx: Context) -> bool:
    """Without statistics to keep, outside a class or for targets without gradients, it standardises as losses do."""
    kept = call.argument("running_mean").value
    if kept is None or ctx.constant(kept) is not None:
        return False
    return ctx.module.index.class_at(call.node) is None or without_gradients(ctx.module, call.node)


def _is_weight(node: ast.expr | None) -> bool:
    """Weight standardisation borrows batch_norm to normalise a kernel."""
    if node is None:
        return False
    return any("weight" in identifier(part) for part in ast.walk(node))
