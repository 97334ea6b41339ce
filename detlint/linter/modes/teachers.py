"""Teachers: models that training steps ask without gradients, and that nothing can train, by every use of them."""

from __future__ import annotations

import ast

from detlint.linter.modes.names import Key
from detlint.linter.modes.paths import Modes
from detlint.linter.programs.evaluation import without_gradients
from detlint.linter.programs.freezing import is_turned_off, turns_gradients_off
from detlint.linter.source.names import FUNCTIONS, parameters
from detlint.linter.source.nodes import walk

_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double"})


def is_teacher(modes: Modes, key: Key) -> bool:
    """Is a model only made, loaded, moved, frozen and asked without gradients?

    Whatever else gets it or its parameters may train it, or have it follow the model that is trained; so may whoever
    hands it over.
    """
    names = modes.index.names_used.get(key.name, ())
    uses = (name for name in names if isinstance(name, (ast.Name, ast.Attribute)))
    given = isinstance(key.owner, FUNCTIONS) and any(part.arg == key.name for part, _ in parameters(key.owner.args))
    return not given and all(_is_harmless(modes, use) for use in uses if modes.key(use) in (key, None))


def _is_harmless(modes: Modes, use: ast.Name | ast.Attribute) -> bool:
    """`teacher(x)` under no_grad, and what says nothing of who trains it."""
    parents = modes.index.parents
    parent = parents.get(use)
    if isinstance(use.ctx, ast.Store):
        return isinstance(parent, ast.Assign) and isinstance(modes.unwrapped(parent.value), ast.Call)
    call = parents.get(parent) if isinstance(parent, ast.Attribute) else parent
    if not isinstance(call, ast.Call) or call.func is not (parent if isinstance(parent, ast.Attribute) else use):
        return False
    if not isinstance(parent, ast.Attribute):
        return without_gradients(modes.module, call)
    if parent.attr == "parameters":
        return _freezes(parents.get(call))
    if parent.attr == "load_state_dict":
        return not any(isinstance(part, ast.Attribute) and part.attr == "state_dict" for part in walk(call))
    kept = isinstance(parents.get(call), (ast.Assign, ast.Expr))
    return kept and (parent.attr in _MOVES or is_turned_off(call))


def _freezes(loop: ast.AST | None) -> bool:
    """`for weight in teacher.parameters(): weight.requires_grad = False`, and nothing else."""
    return isinstance(loop, ast.For) and all(map(turns_gradients_off, loop.body))
