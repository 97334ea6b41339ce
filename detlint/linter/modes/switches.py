"""Which calls switch the mode of a model: `net.eval()`, `net.train()`, `net.train(mode)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from enum import Enum

from detlint.linter.analysis.module import Module
from detlint.linter.source.nodes import identifier, walk
from detlint.randomness import load_sources

# Functions outside the project that are handed a model and leave its mode alone (or put it back).
_HARMLESS = (
    "accelerate.",
    "builtins.",
    "copy.",
    "fvcore.",
    "lightning.pytorch.Trainer.",
    "logging.",
    "numpy.",
    "ptflops.",
    "thop.",
    "timm.optim.",
    "timm.scheduler.",
    "timm.utils.ModelEma",
    "torch.",
    "torchinfo.",
    "torchsummary.",
    "transformers.AdamW",
    "transformers.get_",
    "wandb.",
)
# Names of functions of unknown origin that may well switch the mode of a model they are given.
_MAY_SWITCH = re.compile(
    r"eval|test|val|predict|infer|prepare|mode(?!l)|freeze|train|fit|run|setup|convert|fuse|export|load|build|get|create|wrap|"
    r"make|demo|generate|init",
    re.I,
)
# The same for methods of unknown objects: `set_train_mode`, `eval_mode`, `to_eval`, `train_start`.
_MODE_METHOD = re.compile(r"^(set|to|enter|switch|prepare)_.*(train|eval)|(train|eval\w*)_(mode|start|on)$", re.I)
_LOADS_WEIGHTS = re.compile(r"checkpoint|state_dict|weights|param|__init__|init_|_init", re.I)

_NAMED = 2  # arguments of getattr: what is looked into, and the name


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
    apart = [keyword for keyword in call.keywords if keyword.arg is not None and keyword.arg.endswith("_mode")]
    if function.attr != "train" or len(given) + len(apart) != len(call.args) + len(call.keywords):
        return None
    if not given:  # `net.train(base_mode=False)` of a class with a part that stays as it is
        return Mode.TRAIN
    value = given[0]
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return Mode.TRAIN if value.value else Mode.EVAL
    return Mode.UNKNOWN


def switched_by_name(looked_up: ast.Call, around: ast.AST | None) -> Mode | None:
    """Return the mode that `getattr(net, mode)()` asks for, of which `looked_up` is the inner call; None of others."""
    called = isinstance(around, ast.Call) and around.func is looked_up
    if not called or getattr(looked_up.func, "id", "") != "getattr" or len(looked_up.args) < _NAMED:
        return None
    name = looked_up.args[1]
    if not isinstance(name, ast.Constant):
        return Mode.UNKNOWN
    return {"eval": Mode.EVAL, "train": Mode.TRAIN}.get(str(name.value))


def switched_by_library(names: Collection[str]) -> Mode | None:
    """Return the mode that a function or method of a library leaves a model in, or None where it is known for none."""
    modes = {load_sources().switches.get(name) for name in names} - {None}
    if not modes:
        return None
    return Mode(modes.pop()) if len(modes) == 1 else Mode.UNKNOWN


def names_switches(module: Module) -> bool:
    """Return whether a file calls anything at all by a name that switches modes."""
    called = module.index.calls_by_name
    return "train" in called or not load_sources().switches.lasts.isdisjoint(called)


def switches_any(module: Module, node: ast.AST) -> bool:
    """Return whether anything under `node` switches the mode of some model."""
    return any(isinstance(part, ast.Call) and _switches(module, part) for part in walk(node))


def _switches(module: Module, call: ast.Call) -> bool:
    if switched(call) is not None:
        return True
    known = identifier(call.func) in load_sources().switches.lasts
    return known and switched_by_library(module.inference.resolve(call.func)) is not None


def names_mode(method: str) -> bool:
    """Return whether a method is named like one that switches the mode of its object."""
    return _MODE_METHOD.search(method) is not None


def may_switch(called: str, names: Collection[str]) -> bool:
    """Return whether a function of unknown origin, by its last identifier and all its names, may switch a model."""
    if names and all(name.startswith(_HARMLESS) for name in names):
        return False
    suspicious = called[:1].isupper() or (_MAY_SWITCH.search(called) and not _LOADS_WEIGHTS.search(called))
    return bool(suspicious) or not called
