"""What a program must know of a file that it imports: little enough to be kept for thousands of files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from sys import intern
from typing import TypeGuard

from detlint.linter.source.index import Index
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode, absolute_name
from detlint.linter.source.nodes import decorating, identifier, reached, walk

# Decorators that run no method themselves, nor hand it to anybody.
PLAIN_DECORATORS = frozenset(
    {
        "abstractmethod",
        "cached_property",
        "classmethod",
        "inference_mode",
        "no_grad",
        "override",
        "property",
        "staticmethod",
        "typechecked",
    }
)


@dataclass(frozen=True, slots=True)
class Definition:
    """An outermost function or class and the names that running or making it reads.

    `bases` are the last identifiers of a class's bases, `methods` those that run only where something uses their name.
    """

    name: str
    reads: tuple[str, ...]
    bases: tuple[str, ...] = ()
    methods: tuple[Definition, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """One file in names.

    `imports` are the dotted names that it imports anywhere in its text, in source order. `calls` are the identifiers
    that its calls may mean, `writes` the attributes that it sets, `binds` the names that it binds at the top, `stars`
    the modules that it imports everything from. `reads` are the names that its top-level code reads or registers,
    `guarded` those that only its `__main__` guards read, `definitions` its outermost functions and classes.
    """

    imports: tuple[str, ...]
    calls: frozenset[str]
    writes: frozenset[str]
    binds: frozenset[str]
    stars: tuple[str, ...]
    reads: frozenset[str]
    guarded: frozenset[str]
    definitions: tuple[Definition, ...]

    def parts(self) -> Iterator[Definition]:
        """Yield the definitions and the methods that they list."""
        for definition in self.definitions:
            yield definition
            yield from definition.methods


def outline_of(index: Index, name: str, is_package: bool) -> Outline:
    """Return the outline of a module of this name."""
    reads: set[str] = set()
    definitions: list[Definition] = []
    picking = {
        around
        for call in index.calls_by_name.get("getattr", ())
        if _picks_by_computed_name(call)
        for around in index.ancestors(call)
    }
    pending: list[ast.AST] = list(index.tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            definitions.append(_definition(node, picks=node in picking))
            pending.extend(node.decorator_list)
            reads.update([node.name] if is_registered(node, index) else ())
        else:
            reads.update(_name_read(node))
            left_out = node.body[len(reached(node.body)) :] if isinstance(node, ast.If) else []
            pending.extend(child for child in ast.iter_child_nodes(node) if child not in left_out)
    return Outline(
        imports=tuple(_imports(index, name, is_package)),
        calls=frozenset(index.calls_meaning),
        writes=index.attributes_written,
        binds=frozenset(index.root.bindings),
        stars=tuple(index.root.stars),
        reads=frozenset(reads),
        guarded=_guarded(index.tree),
        definitions=tuple(definitions),
    )


def is_registered(node: FunctionNode | ast.ClassDef, index: Index) -> bool:
    """Is a definition handed to a method of an object that the file itself makes, or to what goes by the name of it?

    `@router.post("/train")`, `@register`, `@register_model("small")`.
    """
    decorators = [decorating(each) for each in node.decorator_list]
    if any("regist" in identifier(decorator).lower() for decorator in decorators):
        return True
    owners = (decorator.value for decorator in decorators if isinstance(decorator, ast.Attribute))
    made = (index.root.bindings.get(owner.id, ()) for owner in owners if isinstance(owner, ast.Name))
    return any(binding.kind is BindingKind.ASSIGN for bindings in made for binding in bindings)


def _definition(node: FunctionNode | ast.ClassDef, *, picks: bool) -> Definition:
    """Outline a definition. Of a class that `picks` methods by computed names any may run with it."""
    methods = [*filter(_runs_by_name, node.body)] if isinstance(node, ast.ClassDef) and not picks else []
    bases = [identifier(base.value if isinstance(base, ast.Subscript) else base) for base in getattr(node, "bases", ())]
    return Definition(
        node.name,
        tuple(_names_read(node, methods)),
        tuple(bases),
        tuple(Definition(method.name, tuple(_names_read(method))) for method in methods),
    )


def _picks_by_computed_name(call: ast.Call) -> bool:
    """`getattr(self, f"on_{event}")`."""
    computed = len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
    return computed and identifier(call.args[0]) in ("self", "cls")


def _runs_by_name(node: ast.AST) -> TypeGuard[FunctionNode]:
    """Return whether a part of a class is a method that only what uses its name runs: no `__init__`, no `forward`."""
    if not isinstance(node, FUNCTIONS) or node.name == "forward" or node.name.startswith("__"):
        return False
    return all(identifier(decorating(decorator)) in PLAIN_DECORATORS for decorator in node.decorator_list)


def _imports(index: Index, name: str, is_package: bool) -> Iterator[str]:
    for node in index.of_type(ast.Import):
        for alias in node.names:
            yield alias.name
    for statement in index.of_type(ast.ImportFrom):
        base = absolute_name(statement, name, is_package)
        yield base
        for alias in statement.names:
            yield f"{base}.{alias.name}"


def is_main_guard(node: ast.If) -> bool:
    """Return whether `node` asks how the file is run: `if __name__ == "__main__":`, any test that reads the name."""
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in walk(node.test))


def _guarded(tree: ast.Module) -> frozenset[str]:
    """Return the names that only the `__main__` guards of a module read."""
    guards = [node for node in tree.body if isinstance(node, ast.If) and is_main_guard(node)]
    if not guards:
        return frozenset()
    others = [node for node in tree.body if node not in guards]
    within = {name for guard in guards for name in _names_read(guard)}
    defined = (*FUNCTIONS, ast.ClassDef)
    return frozenset(within.difference(*(_names_read(node) for node in others if not isinstance(node, defined))))


def _names_read(node: ast.AST, left_out: Sequence[ast.AST] = ()) -> dict[str, None]:
    """Return the identifiers that are read in what stands in `node`, as names or as attributes, in source order."""
    parts = (part for part in ast.iter_child_nodes(node) if part not in left_out)
    return {name: None for part in parts for child in walk(part) for name in _name_read(child)}


def _name_read(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,) if isinstance(node.ctx, ast.Load) else ()
    return (node.attr, as_attribute(node.attr)) if isinstance(node, ast.Attribute) else ()


def as_attribute(name: str) -> str:
    """Return how a read of `x.name` is listed, beside the name itself: only that can mean a method."""
    return intern(f".{name}")  # thousands of definitions read the same few
