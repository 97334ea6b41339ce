"""Draws that a model makes in train mode alone, in programs that only run models in eval mode."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program
from detlint.linter.programs.training import file_trains, may_train, runs_in_training_only

# Methods that train a model, or put it in train mode.
_TRAINING = frozenset({"fit", "train"})


def is_never_in_train_mode(draw: ast.Call, ctx: Context) -> bool:
    """`if not self.training: return x`, and then a draw, where a program calls `eval()` and nothing that trains."""
    owner = ctx.module.index.class_at(draw)
    if owner is None or not runs_in_training_only(ctx.module, draw):
        return False
    is_module = ctx.inference.is_module_class(ctx.module.qualified(owner))
    return is_module and ctx.program is not None and ctx.module.project.once(_only_evaluates, ctx.program)


def _only_evaluates(program: Program) -> bool:
    trains = any((may_train(each) and file_trains(each)) or _calls(each, _TRAINING) for each in program.modules)
    return not trains and any(_calls(each, ("eval",)) for each in program.modules)


def _calls(module: Module, names: Iterable[str]) -> bool:
    """Does a file call something of these names? Most call nothing of the kind, and need not be parsed to say so."""
    return any(name in module.calls and module.index.calls_by_name.get(name) for name in names)
