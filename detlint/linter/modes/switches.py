"""Which calls switch the mode of a model: `net.eval()`, `net.train()`, `net.train(mode)`."""

from __future__ import annotations

import ast
from enum import Enum

from detlint.linter.source.nodes import walk


class Mode(Enum):
    """What is known of a model's mode at a place."""

    TRAIN = "train"
    EVAL = "eval"
    SAME = "same"  # whatever it was when the function was entered
    UNKNOWN = "unknown"


def switched(call: ast.Call) -> Mode | None:
    """Return the mode that `x.eval()`, `x.train()` or `x.train(mode)` asks for, or None for any other call."""
    function = call.func
    if not isinstance(function, ast.Attribute) or len(call.args) + len(call.keywords) > 1:
        return None
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in ("mode", None))]
    if function.attr == "eval":
        return Mode.EVAL if not call.args and not call.keywords else None
    if function.attr != "train" or len(given) != len(call.args) + len(call.keywords):
        return None
    if not given:
        return Mode.TRAIN
    value = given[0]
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return Mode.TRAIN if value.value else Mode.EVAL
    return Mode.UNKNOWN


def switches_any(node: ast.AST) -> bool:
    """Return whether anything under `node` switches the mode of some model."""
    return any(isinstance(part, ast.Call) and switched(part) is not None for part in walk(node))
