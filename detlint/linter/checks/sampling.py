"""Predictions that are drawn at random."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.registry import check
from detlint.linter.programs.evaluation import is_inference


@check("DET206")
def sampling_at_inference(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent with a generator of its own, and outside inference code."""
    if call.argument("generator").given or call.argument("generator").hidden:
        return
    if is_inference(ctx.module, call.node):
        yield ctx.finding(call.node, call=call.name.rpartition(".")[2])


@check("DET206", nodes=(ast.keyword,))
def do_sample(keyword: ast.keyword, ctx: Context) -> Iterator[Finding]:
    """`model.generate(do_sample=True)`: only text generation has this switch."""
    call = ctx.parent(keyword)
    if keyword.arg != "do_sample" or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    if call.func.attr == "generate" and ctx.truth(keyword.value) is Truth.YES:
        yield ctx.finding(call, call="generate")
