"""Steps and callbacks that a trainer of Lightning calls between its steps, and that leave eval mode on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.conditions import Truth
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.layers import parts_of_class
from detlint.linter.modes.names import Key
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.switches import Mode
from detlint.linter.source.names import FUNCTIONS, FunctionNode, Scope

# What runs in the middle of training, with training to follow. What runs before a step may freeze layers for it.
_BETWEEN_STEPS = re.compile(r"(training|optimizer)_step$|on_(train_(batch|epoch)_end|save_checkpoint|before_|after_)")
# What a trainer calls the model that it trains.
_MODELS = ("model", "_model", "lightning_module")
_TRAINED = ("lightning.", "pytorch_lightning.")


@dataclass(frozen=True, slots=True)
class EvalModeHook:
    """A place in a method that a trainer calls between two steps, which leaves the model in eval mode."""

    leaving: ast.AST
    switches: tuple[tuple[Module, ast.AST], ...]
    model: str
    method: FunctionNode


def eval_mode_hooks(module: Module) -> Iterator[EvalModeHook]:
    """Yield the methods of a file's modules and callbacks for Lightning that switch the whole model and leave it so."""
    methods = [node for node in module.index.of_type(ast.FunctionDef) if _BETWEEN_STEPS.match(node.name)]
    if not methods or is_test_file(module):
        return
    modes = module.project.once(Modes, module)
    for method in methods:
        owner = module.index.parents.get(method)
        if not isinstance(owner, ast.ClassDef) or not _is_trained(owner, module):
            continue
        if parts_of_class(module.inference.class_info(owner)) is Truth.NO:
            continue
        scope = module.index.scopes[method]
        for key in (Key(method, name) for name in scope.bindings if _is_trained_model(name, scope)):
            last = [event for event in modes.events(scope, key) if event.mode is Mode.EVAL]
            if last and modes.effect(method, key) is Mode.EVAL:
                called = last[-1].node
                switches = modes.left_by(called, key) if isinstance(called, ast.Call) else ()
                yield EvalModeHook(called, tuple(switches), key.name, method)
                break


def _is_trained_model(name: str, scope: Scope) -> bool:
    """Is a variable the module itself, what a callback gets beside the trainer, or `model = trainer.model`?"""
    parameters = [*scope.node.args.posonlyargs, *scope.node.args.args] if isinstance(scope.node, FUNCTIONS) else []
    if name in [parameter.arg for parameter in (*parameters[:1], *parameters[2:3])]:
        return True
    values = [binding.value for binding in scope.bindings[name]]
    return all(isinstance(value, ast.Attribute) and value.attr in _MODELS for value in values)


def _is_trained(owner: ast.ClassDef, module: Module) -> bool:
    """Is it a module or a callback that Lightning trains, or calls while it does?"""
    inference = module.inference
    return any(base.startswith(_TRAINED) for base in inference.external_bases(inference.class_info(owner)))
