"""Which parts of a model does its constructor freeze? `self.encoder.requires_grad_(False)`, or each parameter of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.programs.freezing import ATTRIBUTE, METHOD, is_turned_off, turns_gradients_off
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own, receiver_of, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_PARAMETERS = ("parameters", "named_parameters")


def is_frozen(name: str, keeper: ClassInfo) -> bool:
    """Return whether a class freezes what it keeps as `self.name` whenever it is made, and thaws nothing."""
    made = keeper.methods.get("__init__")
    return made is not None and name in _frozen(made) and not any(map(_thaws, keeper.methods.values()))


def runs_frozen(call: ast.Call, ctx: Context) -> bool:
    """`self.encoder(x)` or `self.encoder.encode(x)` of a part that the constructor freezes."""
    owner = ctx.module.index.class_at(call)
    parts = (call.func, call.func.value) if isinstance(call.func, ast.Attribute) else ()
    held = next((identifier(part) for part in parts if is_own(part)), "") if owner is not None else ""
    return owner is not None and bool(held) and is_frozen(held, ctx.inference.class_info(owner))


def _frozen(made: FunctionNode) -> Iterator[str]:
    """Yield the attributes that a constructor freezes, whatever it is given."""
    for statement in made.body:
        if isinstance(statement, ast.Expr) and is_turned_off(statement.value):
            yield _kept(receiver_of(statement.value))
        elif isinstance(statement, ast.Assign) and any(is_turned_off(part) for part in _chain(statement.value)):
            yield from map(_kept, statement.targets)
        elif isinstance(statement, ast.For) and any(map(turns_gradients_off, statement.body)):
            looped = [part for part in _chain(statement.iter) if identifier(part.func) in _PARAMETERS]
            yield from (_kept(receiver_of(part)) for part in looped)


def _chain(value: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls of `load(path).requires_grad_(False).eval()`, the last one first."""
    link: ast.expr | None = value
    while isinstance(link, ast.Call):
        yield link
        link = receiver_of(link)


def _kept(node: ast.expr | None) -> str:
    return identifier(node) if node is not None and is_own(node) else ""


def _thaws(method: FunctionNode) -> bool:
    """Does a method ask for gradients, of whatever it may be: `p.requires_grad = trainable`?"""
    for part in walk(method):
        if isinstance(part, ast.Call) and identifier(part.func) == METHOD and not is_turned_off(part):
            return True
        if isinstance(part, ast.Assign) and identifier(part.targets[0]) == ATTRIBUTE and not turns_gradients_off(part):
            return True
    return False
