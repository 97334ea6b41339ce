"""What a class of the project holds: its bases, its methods, and what its attributes are set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import receiver_of

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

# Bases that call nothing of what derives from them, and those that call nothing but `forward` besides.
SILENT_BASES = frozenset({"abc.ABC", "builtins.object", "typing.Generic", "typing.Protocol"})
QUIET_BASES = SILENT_BASES | {"torch.nn.Module", "torch.nn.modules.module.Module"}


@dataclass(frozen=True, slots=True, eq=False)
class AttributeWrite:
    """`self.name = value` in a method, or `name = value` in the class body (then `method` is None)."""

    value: ast.expr
    method: FunctionNode | None
    index: tuple[int, ...] = ()


class ClassInfo:
    """One class of the project, read from its own body. Inheritance is the inference's business.

    `declared` are annotations of attributes: fields in the class body, and `self.name: Tensor` in a method.
    """

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module = module
        self.node = node
        self.name = module.qualified(node)
        self.methods: dict[str, FunctionNode] = {}
        self.attributes: dict[str, list[AttributeWrite]] = {}
        self.declared: dict[str, ast.expr] = {}
        for statement in _statements(node.body):
            if isinstance(statement, FUNCTIONS):
                self.methods[statement.name] = statement
            else:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    self.declared[statement.target.id] = statement.annotation
                for name, value, index in _writes(statement):
                    self.add(name, AttributeWrite(value, None, index))

    def add(self, name: str, write: AttributeWrite) -> None:
        """Record one more write to the attribute `name`."""
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


def read_classes(module: Module) -> dict[ast.ClassDef, ClassInfo]:
    """Return what every class of a module holds, from one pass over its assignments and registrations."""
    classes = {node: ClassInfo(module, node) for node in module.index.of_type(ast.ClassDef)}
    writes = [*_assigned(module), *_registered(module)]
    for receiver, name, value, place in sorted(writes, key=lambda write: (write[2].lineno, write[2].col_offset)):
        for owner, method in _owner(module, receiver):
            classes[owner].add(name, AttributeWrite(value, method, place))
    for target, annotation in module.index.annotations.items():
        for receiver, name, _ in _attributes(target, ()):
            for owner, _method in _owner(module, receiver):
                classes[owner].declared.setdefault(name, annotation)
    return classes


# Methods that set an attribute, whose name and value they are given, and what the value's parameter is called.
_REGISTRATIONS = {
    "register_buffer": "tensor",
    "register_parameter": "param",
    "add_state": "default",
    "_add_state": "default",
}

# The receiver's name, the attribute, the value, and the place in the value where it is unpacked.
_Write = tuple[ast.Name, str, ast.expr, tuple[int, ...]]


def _assigned(module: Module) -> Iterator[_Write]:
    for node in module.index.of_type(ast.Assign):
        for target in node.targets:
            for receiver, name, place in _attributes(target, ()):
                yield receiver, name, node.value, place


def _registered(module: Module) -> Iterator[_Write]:
    """`self.register_buffer("mean", torch.zeros(3))` sets an attribute too, as does `add_state` of a metric."""
    for method, keyword in _REGISTRATIONS.items():
        for call in module.index.calls_by_name.get(method, ()):
            receiver = receiver_of(call)
            given: dict[str | None, ast.expr] = dict(zip(("name", keyword), call.args, strict=False))
            given.update({key.arg: key.value for key in call.keywords})
            match given.get("name"), given.get(keyword):
                case ast.Constant(value=str(name)), ast.expr() as value if isinstance(receiver, ast.Name):
                    yield receiver, name, value, ()


def _attributes(target: ast.expr, index: tuple[int, ...]) -> Iterator[tuple[ast.Name, str, tuple[int, ...]]]:
    """Yield receiver and name of the `receiver.name` targets of an assignment, and their place in the value."""
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        yield target.value, target.attr, index
    elif isinstance(target, (ast.Tuple, ast.List)):
        for position, element in enumerate(target.elts):
            yield from _attributes(element, (*index, position))


def _owner(module: Module, receiver: ast.Name) -> Iterator[tuple[ast.ClassDef, FunctionNode]]:
    """Yield the class, and its method, whose `self` a name is, if it is one, or the instance that it makes."""
    method = _method_of(module, receiver)
    owner = _class_of(module, method) if method is not None else None
    if method is None or owner is None:
        owner = class_made(module, receiver)
        method = module.index.function_at(receiver)
    if method is not None and owner is not None:
        yield owner, method


def class_made(module: Module, name: ast.Name) -> ast.ClassDef | None:
    """`made = cls(path)` in a method: its class, if the name is for nothing but an instance of it."""
    scope = module.index.scope_at(name).lookup(name.id)
    function = scope.node if scope is not None else None
    owner = _class_of(module, function) if isinstance(function, FUNCTIONS) else None
    if scope is None or owner is None or not isinstance(function, FUNCTIONS):
        return None
    first = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)[:1]]
    known = {owner.name, *(word for word in first if word == "cls")}
    values = [binding.value for binding in scope.bindings[name.id]]
    return owner if values and all(_makes_one(value, known) for value in values) else None


def _makes_one(value: ast.expr | None, known: set[str]) -> bool:
    """`cls(…)`, `Predictor(…)`, `cls.__new__(cls)`, `object.__new__(cls)`."""
    if not isinstance(value, ast.Call):
        return False
    if getattr(value.func, "attr", "") == "__new__":
        return any(getattr(argument, "id", "") in known for argument in value.args[:1])
    return getattr(value.func, "id", "") in known


def _method_of(module: Module, name: ast.Name) -> FunctionNode | None:
    """Return the method whose receiver `name` is, also where it stands in a closure inside it."""
    scope = module.index.scope_at(name).lookup(name.id)
    function = scope.node if scope is not None else None
    if not isinstance(function, FUNCTIONS):
        return None
    positional = [*function.args.posonlyargs, *function.args.args]
    static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in function.decorator_list)
    return function if positional and positional[0].arg == name.id and not static else None


def _class_of(module: Module, method: FunctionNode) -> ast.ClassDef | None:
    parent = module.index.parents.get(method)
    while isinstance(parent, (ast.If, ast.Try)):
        parent = module.index.parents.get(parent)
    return parent if isinstance(parent, ast.ClassDef) else None
