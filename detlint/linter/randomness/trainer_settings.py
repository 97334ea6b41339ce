"""Settings of trainers that a configuration makes: `cfg.trainer.deterministic = True`, before the trainer is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.project import Module
from detlint.linter.source.nodes import identifier

_SETTING = "deterministic"
_TRAINER = re.compile(r"(^|_)trainer(_|$)", re.IGNORECASE)


def determinism_settings(module: Module) -> Iterator[ast.expr]:
    """Yield what a module assigns to `deterministic` of something called a trainer, under no condition."""
    if _SETTING not in module.writes:
        return
    for statement in module.index.of_type(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and target.attr == _SETTING:
                chosen = next(module.index.branches_around(statement), None) is not None
                if _TRAINER.search(identifier(target.value)) and not chosen:
                    yield statement.value
