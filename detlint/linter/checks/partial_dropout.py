"""Functional dropout that is handed on as a function, with the mode of training left on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.training import spared_by_mode, trains
from detlint.linter.source.nodes import arguments_of

_DEFAULTS_TO_TRAINING = frozenset(f"torch.nn.functional.dropout{kind}" for kind in ("", "1d", "2d", "3d"))


@check("DET202", calls=("partial",))
def dropout_handed_on(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`attend(q, k, v, partial(F.dropout, p=self.p))`: whoever calls it has nothing to do with the mode.

    Where a name or an attribute keeps it, its calls are looked at themselves.
    """
    if "functools.partial" not in ctx.resolve(call.func) or not call.args or is_test_file(ctx.module):
        return
    names = _DEFAULTS_TO_TRAINING.intersection(ctx.resolve(call.args[0]))
    told = len(call.args) > 3 or any(keyword.arg in ("training", None) for keyword in call.keywords)
    rates = [keyword.value for keyword in call.keywords if keyword.arg == "p"]
    function = ctx.function(call)
    if not names or told or any(ctx.constant(rate) == 0 for rate in rates):
        return
    if function is None or trains(function) or spared_by_mode(ctx.module, call):
        return
    binding = ctx.binding(call)
    handed = [call] if binding is None else ctx.flow(call).uses(binding)
    if any(_is_handed_on(value, ctx) for value in handed):
        name = min(names).rpartition(".")[2]
        yield ctx.finding(call, call=name, state="training is left at its default, True")


def _is_handed_on(value: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(value)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or value not in arguments_of(call):
        return False
    return not spared_by_mode(ctx.module, call)
