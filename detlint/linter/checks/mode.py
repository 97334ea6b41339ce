"""Models that predict while they are in train mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.context import Context
from detlint.linter.registry import check_file
from detlint.linter.train_mode import TrainModeInference, train_mode_inferences


@check_file("DET201")
def missing_eval(ctx: Context) -> Iterator[Finding]:
    """The model was made or trained, and nothing switches it before it predicts."""
    for found in train_mode_inferences(ctx.module):
        if found.after_training:
            why = "since it was made" if found.reason.created else "since its training"
            yield _finding(found, why, ctx)


@check_file("DET204")
def train_mode_inference(ctx: Context) -> Iterator[Finding]:
    """`train()` was called and no training follows, only the prediction."""
    for found in train_mode_inferences(ctx.module):
        if not found.after_training:
            yield _finding(found, f"switched on in line {_line(found.reason.node)}", ctx)


def _finding(found: TrainModeInference, why: str, ctx: Context) -> Finding:
    related = [(found.reason.module, found.reason.node, "in train mode from here")]
    return ctx.finding(found.call, model=found.model, why=why, related=related)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
