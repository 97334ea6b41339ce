"""Models that draw random numbers themselves in train mode alone: `if self.training: return mean + std * noise`."""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.module import Module
from detlint.linter.programs.training import holds_in_eval_only
from detlint.linter.source.nodes import walk
from detlint.randomness import load_sources


def draws_in_training(module: Module, body: ast.ClassDef) -> Truth:
    """Does a method of a class draw where `self.training` holds? Unknown where a rate or another option decides too."""
    if "training" not in module.index.names_used:
        return Truth.NO
    calls = (part for part in walk(body) if isinstance(part, ast.Call))
    found = {_needs_training(module, call) for call in calls if _draws(module, call)}
    return Truth.YES if Truth.YES in found else Truth.UNKNOWN if Truth.UNKNOWN in found else Truth.NO


def _draws(module: Module, call: ast.Call) -> bool:
    return any(load_sources().draws.get(name) is not None for name in module.inference.callees(call))


def _needs_training(module: Module, draw: ast.Call) -> Truth:
    """Is a call reached in train mode alone: after `if not self.training: return`, or under `if self.training:`?"""
    conditions = list(module.index.conditions_around(draw))
    if any(holds_in_eval_only(test) is (not holds) for test, holds in conditions):
        others = [test for test, _ in conditions if holds_in_eval_only(test) is None]
        return Truth.UNKNOWN if others else Truth.YES
    parts = (part for test, _ in conditions for part in walk(test))
    asked = any(isinstance(part, ast.Attribute) and part.attr == "training" for part in parts)
    return Truth.UNKNOWN if asked else Truth.NO
