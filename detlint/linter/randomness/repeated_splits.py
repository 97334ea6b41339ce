"""Splits that one run of a program draws more than once: then its parts overlap, whatever was seeded before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_DATA_MODULE = ".LightningDataModule"


def splits_nothing(call: ast.Call) -> bool:
    """`random_split(rows, [0, 0])`: what an empty data set is split into."""
    sizes = call.args[1].elts if len(call.args) > 1 and isinstance(call.args[1], (ast.List, ast.Tuple)) else []
    return bool(sizes) and all(isinstance(size, ast.Constant) and size.value == 0 for size in sizes)


def why_drawn_again(split: ast.Call, ctx: Context) -> str:
    """Return how a split without a seed of its own comes to be drawn again; nothing if that cannot be told."""
    if _gives_one_part(split, ctx):
        return "anew in each call, which gives one of the parts: they overlap"
    if _is_for_each_stage(split, ctx):
        return "anew for each stage: what it fits on may be tested on"
    return ""


def _gives_one_part(split: ast.Call, ctx: Context) -> bool:
    """`train_set, val_set = random_split(…)`, and then `return train_set if train else val_set`, or two statements."""
    function, statement = ctx.function(split), ctx.statement(split)
    if function is None or not isinstance(statement, ast.Assign) or statement.value is not split:
        return False
    names = {part.id for target in statement.targets for part in walk(target) if isinstance(part, ast.Name)}
    returned = [part.value for part in walk(function) if isinstance(part, ast.Return) and part.value is not None]
    given = [branch for value in returned for branch in _branches(value)]
    return len({part.id for part in given if isinstance(part, ast.Name) and part.id in names}) > 1


def _branches(value: ast.expr) -> tuple[ast.expr, ...]:
    return (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def _is_for_each_stage(split: ast.Call, ctx: Context) -> bool:
    """Does a data module of Lightning split in its `setup`, which `fit` and `test` both call, on no condition?"""
    method, owner = ctx.function(split), ctx.module.index.class_at(split)
    if method is None or method.name != "setup" or owner is None:
        return False
    if next(ctx.module.index.conditions_around(split), None) is not None:
        return False
    bases = ctx.inference.external_bases(ctx.inference.class_info(owner))
    return any(base.endswith(_DATA_MODULE) for base in bases)
