"""Teachers: models that training steps ask without gradients, and that nothing can train, by every use of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import functions_called
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes
from detlint.linter.programs.freezing import is_turned_off, turns_gradients_off
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.names import FUNCTIONS, parameters
from detlint.linter.source.nodes import arguments_of, walk

_MAX_CALLS = 2  # through which a teacher is handed on
_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double"})


def teachers(modes: Modes, key: Key, steps: int = _MAX_CALLS) -> tuple[Key, ...]:
    """Return the variable if it is a teacher's; for a parameter those that all callers in the file hand over.

    A teacher is only made, loaded, moved, frozen and asked without gradients. Whatever else gets it or its parameters
    may train it, or have it follow the model that is trained. Nothing is returned where one of them may be no teacher.
    """
    function = key.owner if isinstance(key.owner, FUNCTIONS) else None
    if not all(_is_harmless(modes, use, steps) for use in _uses(modes, key)):
        return ()
    if function is None or all(part.arg != key.name for part, _ in parameters(function.args)):
        return (key,)
    calls = list(modes.callers(function)) if steps else []
    given = (given_to(function, key.name, call) for call in calls)
    keys = [modes.key(model) if model is not None else None for model in given]
    behind = [teachers(modes, each, steps - 1) if each is not None else () for each in keys]
    return tuple(each for found in behind for each in found) if all(behind) else ()


def _uses(modes: Modes, key: Key) -> Iterator[ast.Name | ast.Attribute]:
    for use in modes.index.names_used.get(key.name, ()):
        if isinstance(use, (ast.Name, ast.Attribute)) and modes.key(use) in (key, None):
            yield use


def _is_harmless(modes: Modes, use: ast.Name | ast.Attribute, steps: int) -> bool:
    """`teacher(x)` under no_grad, and what says nothing of who trains it."""
    parents = modes.index.parents
    parent = parents.get(use)
    if isinstance(use.ctx, ast.Store):
        return isinstance(parent, ast.Assign) and isinstance(modes.unwrapped(parent.value), ast.Call)
    around = parents.get(parent) if isinstance(parent, (ast.Attribute, ast.keyword)) else parent
    if isinstance(around, ast.Call) and use in arguments_of(around):
        return bool(steps) and _is_only_asked(modes, around, use, steps - 1)
    if not isinstance(around, ast.Call) or around.func is not (parent if isinstance(parent, ast.Attribute) else use):
        return False
    if not isinstance(parent, ast.Attribute):
        return without_gradients(modes.module, around)
    if parent.attr == "parameters":
        return _freezes(parents.get(around))
    if parent.attr == "load_state_dict":
        return not any(isinstance(part, ast.Attribute) and part.attr == "state_dict" for part in walk(around))
    kept = isinstance(parents.get(around), (ast.Assign, ast.Expr))
    return kept and (parent.attr in _MOVES or is_turned_off(around))


def _is_only_asked(modes: Modes, call: ast.Call, model: ast.expr, steps: int) -> bool:
    """`train_epoch(student, teacher, loader)`, a function of the file that does no more with the one it is given."""
    found = list(functions_called(modes.module.inference, call))
    inner = [
        Key(function, part.arg)
        for module, function in found
        for part, _ in parameters(function.args)
        if module is modes.module and given_to(function, part.arg, call) is model
    ]
    return len(inner) == len(found) > 0 and all(
        _is_harmless(modes, use, steps) for key in inner for use in _uses(modes, key)
    )


def _freezes(loop: ast.AST | None) -> bool:
    """`for weight in teacher.parameters(): weight.requires_grad = False`, and nothing else."""
    return isinstance(loop, ast.For) and all(map(turns_gradients_off, loop.body))
