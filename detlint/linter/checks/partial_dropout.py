"""Functional dropout that is handed on as a function, or that a table holds, with the mode of training left on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.table_calls import calls_of_entry
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.left_on import is_called_in_forward
from detlint.linter.programs.training import spared_by_mode, trains
from detlint.linter.source.node_lists import is_partial
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


@check("DET202", calls=("partial",))
def dropout_told_in_table(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`DROPS = {"alpha": partial(F.alpha_dropout, training=True)}`, where a forward pass calls what a table holds."""
    display = ctx.parent(call)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if not isinstance(display, ast.Dict) or call in display.keys or not is_partial(call) or is_test_file(ctx.module):
        return
    names = [name for name in ctx.resolve(call.args[0]) if name in ctx.rule.triggers_by_name]
    if not names or "training" not in given or ctx.constant(given["training"]) is not True:
        return
    for where, site in calls_of_entry(ctx.module, display, call):
        told = any(keyword.arg in ("training", None) for keyword in site.keywords)
        if not told and is_called_in_forward(ctx.elsewhere(where), site):
            related = [(where, site, "drops here")]
            name = names[0].rpartition(".")[2]
            yield ctx.finding(call, related=related, call=name, state="training is always True")
            return


def _is_handed_on(value: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(value)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or value not in arguments_of(call):
        return False
    return not spared_by_mode(ctx.module, call)
