"""Settings of trainers made by their arguments or a configuration: `cfg.trainer.deterministic = True`, before that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.unsaid import default_of_field
from detlint.linter.source.nodes import identifier

_SETTING = "deterministic"
# What the trainers of transformers, and all that are derived from them, ask their arguments for.
_FULL = "full_determinism"
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


def full_determinism(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield where a module says how deterministic a trainer of transformers has to be, and what it says.

    `DPOConfig("out", full_determinism=True)` of whatever arguments, `{"full_determinism": True}` that they are made of,
    `args.full_determinism = True`, and a field of a class of arguments: nothing else has a setting of that name.
    """
    if not module.holds_text(_FULL):
        return
    yield from ((place, value) for place, name, value in module.index.given_by_name() if name == _FULL)
    for target, value in module.index.assigned():
        if identifier(target) == _FULL:
            yield target, default_of_field(value)


def trainer_options(module: Module, setting: str) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield where options that are kept for a trainer name a setting, and its value: `trainer_args = {"gpus": 2}`."""
    for place, name, value in module.index.given_by_name():
        made = module.index.parents.get(place) if name == setting else None
        written = isinstance(made, ast.Dict) or (isinstance(made, ast.Call) and getattr(made.func, "id", "") == "dict")
        if isinstance(made, ast.expr) and written and _is_for_trainer(module, made):
            yield place, value


def _is_for_trainer(module: Module, options: ast.expr) -> bool:
    """`trainer_args = options`, `make(trainer=options)`, `{"trainer": options}`."""
    parent = module.index.parents.get(options)
    named: list[str] = []
    if isinstance(parent, ast.Assign):
        named = [identifier(target) for target in parent.targets]
    elif isinstance(parent, ast.AnnAssign):
        named = [identifier(parent.target)]
    elif isinstance(parent, ast.keyword):
        named = [parent.arg or ""]
    elif isinstance(parent, ast.Dict) and options in parent.values:
        key = parent.keys[parent.values.index(options)]
        named = [key.value] if isinstance(key, ast.Constant) and isinstance(key.value, str) else []
    return any(_TRAINER.search(name) for name in named)
