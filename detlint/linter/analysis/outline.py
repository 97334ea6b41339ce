"""What a program must know of a file that it imports: little enough to be kept for thousands of files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.source.index import Index
from detlint.linter.source.names import FUNCTIONS, absolute_name
from detlint.linter.source.nodes import reached, walk


@dataclass(frozen=True, slots=True)
class Outline:
    """One file in names.

    `imports` are the dotted names that it imports anywhere in its text, in source order. `calls` are the identifiers
    that its calls may mean, `writes` the attributes that it sets, `binds` the names that it binds at the top, `stars`
    the modules that it imports everything from. `reads` are the names that its top-level code reads,
    `guarded` those that only its `__main__` guards read, `definitions` each outermost function or class with the names
    that it reads.
    """

    imports: tuple[str, ...]
    calls: frozenset[str]
    writes: frozenset[str]
    binds: frozenset[str]
    stars: tuple[str, ...]
    reads: frozenset[str]
    guarded: frozenset[str]
    definitions: tuple[tuple[str, tuple[str, ...]], ...]


def outline_of(index: Index, name: str, is_package: bool) -> Outline:
    """Return the outline of a module of this name."""
    reads: set[str] = set()
    definitions: list[tuple[str, tuple[str, ...]]] = []
    pending: list[ast.AST] = list(index.tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            definitions.append((node.name, tuple(dict.fromkeys(_names_read(node)))))
            pending.extend(node.decorator_list)
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


def _names_read(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers that are read under `node`, as names or as attributes."""
    for child in walk(node):
        yield from _name_read(child)


def _name_read(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,) if isinstance(node.ctx, ast.Load) else ()
    return (node.attr,) if isinstance(node, ast.Attribute) else ()
