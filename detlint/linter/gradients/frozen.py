"""Which parts of a model does its constructor freeze? `self.encoder.requires_grad_(False)`, or each parameter of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own, walk

_GRADIENT = ("requires_grad", "requires_grad_")
_PARAMETERS = ("parameters", "named_parameters")


def is_frozen(name: str, keeper: ClassInfo) -> bool:
    """Return whether a class freezes what it keeps as `self.name` whenever it is made, and thaws nothing."""
    made = keeper.methods.get("__init__")
    return made is not None and name in _frozen(made) and not any(map(_thaws, keeper.methods.values()))


def _frozen(made: FunctionNode) -> Iterator[str]:
    """Yield the attributes that a constructor freezes, whatever it is given."""
    for statement in made.body:
        if isinstance(statement, ast.Expr) and _is_off(statement.value):
            yield _kept(_receiver(statement.value))
        elif isinstance(statement, ast.Assign) and any(_is_off(part) for part in _chain(statement.value)):
            yield from map(_kept, statement.targets)
        elif isinstance(statement, ast.For) and any(map(_freezes, statement.body)):
            looped = [part for part in _chain(statement.iter) if identifier(part.func) in _PARAMETERS]
            yield from (_kept(_receiver(part)) for part in looped)


def _freezes(statement: ast.stmt) -> bool:
    """`p.requires_grad = False`, `p.requires_grad_(False)`."""
    if isinstance(statement, ast.Assign):
        false = isinstance(statement.value, ast.Constant) and statement.value.value is False
        return false and any(identifier(target) in _GRADIENT for target in statement.targets)
    return isinstance(statement, ast.Expr) and _is_off(statement.value)


def _is_off(call: ast.expr) -> bool:
    """`layer.requires_grad_(False)`."""
    if not isinstance(call, ast.Call) or identifier(call.func) != _GRADIENT[1] or len(call.args) != 1:
        return False
    return isinstance(call.args[0], ast.Constant) and call.args[0].value is False


def _chain(value: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls of `load(path).requires_grad_(False).eval()`, the last one first."""
    link: ast.expr | None = value
    while isinstance(link, ast.Call):
        yield link
        link = _receiver(link)


def _receiver(call: ast.expr) -> ast.expr | None:
    return call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None


def _kept(node: ast.expr | None) -> str:
    return identifier(node) if node is not None and is_own(node) else ""


def _thaws(method: FunctionNode) -> bool:
    """Does a method ask for gradients, of whatever it may be: `p.requires_grad = trainable`?"""
    for part in walk(method):
        if isinstance(part, ast.Call) and identifier(part.func) == _GRADIENT[1] and not _is_off(part):
            return True
        if isinstance(part, ast.Assign) and identifier(part.targets[0]) == _GRADIENT[0] and not _freezes(part):
            return True
    return False
