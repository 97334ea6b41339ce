"""What a class of the project holds: its bases, its methods, and what its attributes are set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.linter.names import FUNCTIONS, FunctionNode

if TYPE_CHECKING:
    from detlint.linter.project import Module


@dataclass(frozen=True, slots=True, eq=False)
class AttributeWrite:
    """`self.name = value` in a method, or `name = value` in the class body (then `method` is None)."""

    value: ast.expr
    method: FunctionNode | None
    index: tuple[int, ...] = ()


class ClassInfo:
    """One class of the project, read from its own body. Inheritance is the inference's business."""

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module = module
        self.node = node
        self.name = module.qualified(node)
        self.methods: dict[str, FunctionNode] = {}
        self.attributes: dict[str, list[AttributeWrite]] = {}
        for statement in _statements(node.body):
            if isinstance(statement, FUNCTIONS):
                self.methods[statement.name] = statement
            else:
                for name, value, index in _writes(statement):
                    self._add(name, AttributeWrite(value, None, index))
        for method in self.methods.values():
            self._read_method(method)

    def _read_method(self, method: FunctionNode) -> None:
        positional = [*method.args.posonlyargs, *method.args.args]
        if not positional or any(getattr(d, "id", "") == "staticmethod" for d in method.decorator_list):
            return
        receiver = positional[0].arg
        for node in ast.walk(method):
            if isinstance(node, ast.Call):
                for name, value in _registered(node, receiver):
                    self._add(name, AttributeWrite(value, method))
            if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is None:
                continue
            for target in targets:
                for attribute, index in _attributes(target, receiver, ()):
                    self._add(attribute, AttributeWrite(node.value, method, index))

    def _add(self, name: str, write: AttributeWrite) -> None:
        self.attributes.setdefault(name, []).append(write)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a class body, those under `if` and `try` included."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)


def _writes(statement: ast.stmt) -> Iterator[tuple[str, ast.expr, tuple[int, ...]]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value, ()
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value, ()


def _registered(call: ast.Call, receiver: str) -> Iterator[tuple[str, ast.expr]]:
    """`self.register_buffer("mean", torch.zeros(3))` sets an attribute too."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("register_buffer", "register_parameter"):
        return
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in ("tensor", "param"))]
    if isinstance(function.value, ast.Name) and function.value.id == receiver and len(given) > 1:
        name = given[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value, given[1]


def _attributes(
    target: ast.expr, receiver: str, index: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    if isinstance(target, ast.Attribute):
        if isinstance(target.value, ast.Name) and target.value.id == receiver:
            yield target.attr, index
    elif isinstance(target, (ast.Tuple, ast.List)):
        for position, element in enumerate(target.elts):
            yield from _attributes(element, receiver, (*index, position))
