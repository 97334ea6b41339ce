"""How are elements hashed whose types the project declares itself: named tuples, data classes, enums, `NewType`?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from detlint.linter.analysis.element_sort import Sort, Steps, agreed, annotated, as_tuple, documented
from detlint.linter.analysis.made import made_of
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import decorating, identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.module import Module

_MOST_STEPS = 4
# Hashed by their value; other enums by their name.
_NUMBERED = frozenset({"enum.IntEnum", "enum.IntFlag", "builtins.int", "builtins.float"})
_ALIASES = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)


def declared(annotation: ast.expr, steps: Steps, module: Module, depth: int = _MOST_STEPS) -> Sort:
    """Return what an annotation says about what `steps` lead to; the project's own types are looked up."""
    return annotated(annotation, steps, partial(_of_type, module, depth))


def declared_attribute(node: ast.Attribute, steps: Steps, module: Module) -> Sort:
    """Return what is declared of an attribute by the class that has it, or by those of its file that may be that.

    Where no annotation says anything, the text that describes the class may.
    """
    inference = module.inference
    owner = module.index.class_at(node)
    if owner is not None and is_own(node):
        infos = list(inference.mro(inference.class_info(owner)))
    else:
        types = {value.type for value in inference.values(node.value)}
        named = [info for info in map(inference.class_named, sorted(types)) if info is not None]
        infos = [each for info in named for each in inference.mro(info)] or list(module.classes.values())
    fields = ((annotation, info.module) for info in infos for annotation in _annotations(info, node.attr))
    found = agreed(declared(annotation, steps, where) for annotation, where in fields)
    if found is not Sort.UNKNOWN:
        return found
    described = (documented(node.attr, info.node, steps) for info in infos)
    return agreed(sort for sort in described if sort is not Sort.UNKNOWN)


def _annotations(info: ClassInfo, name: str) -> Iterator[ast.expr]:
    """Yield what a class declares of an attribute, and what it says that a property gives."""
    if name in info.declared:
        yield info.declared[name]
    method = info.methods.get(name)
    if method is not None and method.returns is not None and info.module.inference.property_of(info, name) is not None:
        yield method.returns


def is_record(info: ClassInfo) -> bool:
    """Is a class hashed by its fields: a named tuple, or a data class?"""
    inference = info.module.inference
    if any("typing.NamedTuple" in inference.resolve(base) or _makes_tuple(info, base) for base in info.node.bases):
        return True
    return any(identifier(decorating(decorator)) == "dataclass" for decorator in info.node.decorator_list)


def is_tuple_type(function: ast.expr, module: Module) -> bool:
    """Is `Edge` of `Edge(source, target)` made by `Edge = namedtuple("Edge", ["source", "target"])`?"""
    made = made_of(module, function)
    return bool(made) and all(
        isinstance(value, ast.Call) and "collections.namedtuple" in module.inference.callees(value) for value in made
    )


def sort_of_class(info: ClassInfo, depth: int = _MOST_STEPS) -> Sort:
    """Return how instances are hashed, as far as the class tells: enums, numbers, and records with annotated fields."""
    bases = info.module.inference.external_bases(info)
    if not _NUMBERED.isdisjoint(bases) and "__hash__" not in info.methods:
        return Sort.NUMBERS
    if any(base.startswith("enum.") for base in bases):
        return Sort.HASHED
    hashing = info.methods.get("__hash__")
    if hashing is None and not is_record(info):
        return Sort.UNKNOWN
    fields = [part for part in info.node.body if isinstance(part, ast.AnnAssign)]
    if hashing is not None:  # `return hash((self.name, self.size))`
        hashed = {part.attr for part in ast.walk(hashing) if isinstance(part, ast.Attribute) and is_own(part)}
        fields = [part for part in fields if identifier(part.target) in hashed]
    return as_tuple(declared(part.annotation, (), info.module, depth) for part in fields)


def _makes_tuple(info: ClassInfo, base: ast.expr) -> bool:
    """`class Edge(namedtuple("Edge", ["source", "target"]))`."""
    return isinstance(base, ast.Call) and "collections.namedtuple" in info.module.inference.callees(base)


def _of_type(module: Module, depth: int, node: ast.expr, steps: Steps) -> Sort:
    """`Edge` of `set[Edge]`: a class, or another name for a type."""
    for name in _meant(module, node) if depth else ():
        info = module.inference.class_named(name)
        if info is not None:
            return Sort.UNKNOWN if steps else sort_of_class(info, depth - 1)
        where, _, last = name.rpartition(".")
        owner = module.project.named(where)
        bound = owner.index.root.bindings.get(last, ()) if owner is not None else ()
        if owner is not None and len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN:
            stands_for = _alias(owner, bound[0].value)
            return declared(stands_for, steps, owner, depth - 1) if stands_for is not None else Sort.UNKNOWN
    return Sort.UNKNOWN


def _meant(module: Module, node: ast.expr) -> Iterator[str]:
    if node in module.index.parents:  # no quoted annotation
        yield from module.inference.resolve(node)
    if isinstance(node, ast.Name):
        yield f"{module.name}.{node.id}"


def _alias(module: Module, value: ast.expr | None) -> ast.expr | None:
    """`NewType("Partition", int)`, `Edge = tuple[int, int]`."""
    if isinstance(value, ast.Call) and len(value.args) == 2:
        return value.args[1] if "typing.NewType" in module.inference.callees(value) else None
    return value if isinstance(value, _ALIASES) else None
