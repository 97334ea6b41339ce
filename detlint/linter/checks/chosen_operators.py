"""DET306: operators that another library is told to call, by the word that it is given for an option."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.defaults import text_by_default
from detlint.linter.analysis.never_taken import is_never_run
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.operator_calls import operators_chosen
from detlint.linter.programs.step_calls import leads_to_training
from detlint.linter.randomness.determinism import asks_for_deterministic_algorithms
from detlint.operators import CAUSES, WITH_FLAG

# Whoever makes one of these means to train: `SFTTrainer(model)`.
_TRAINER = "Trainer"


@check_file("DET306")
def operator_chosen_by_option(ctx: Context) -> Iterator[Finding]:
    """`from_pretrained(name, attn_implementation="flash_attention_2")` in a file that trains.

    Silent where the program asks for determinism, and where the file speaks of the variable that the library looks at.
    """
    for operator in operators_chosen(ctx):
        for option, words in operator.chosen_by.items():
            for place, value in _given(option, ctx):
                word = text_by_default(value, ctx)
                if word in words and not is_never_run(place, ctx) and _trains_with(operator.chosen_unless, ctx):
                    yield ctx.finding(
                        place,
                        call=f"{option}={word!r}",
                        reason=f"in its backward pass {CAUSES[operator.cause]}",
                        outcome=WITH_FLAG[operator.with_flag],
                        remedy=f"{operator.chosen_unless}=1 in the environment",
                        passes=operator.passes,
                        devices=operator.devices,
                    )


def _given(option: str, ctx: Context) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield where an option is given, and its value: `load(option=x)`, `{"option": x}`, `config.option = x`."""
    if not ctx.module.holds_text(option):
        return
    index = ctx.module.index
    yield from ((place, value) for place, name, value in index.given_by_name() if name == option)
    for target, value in index.assigned():
        if isinstance(target, ast.Attribute) and target.attr == option:
            yield target, value


def _trains_with(unless: str, ctx: Context) -> bool:
    if is_test_file(ctx.module) or ctx.module.holds_text(unless) or asks_for_deterministic_algorithms(ctx):
        return False
    return leads_to_training(ctx.module) or any(name.endswith(_TRAINER) for name in ctx.module.calls)
