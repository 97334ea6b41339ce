"""What rewrites share: blocks of statements, names that are free, the place behind the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class Rewritten:
    """A module after a rewrite, and the files that were made beside it."""

    tree: ast.Module
    beside: dict[str, ast.Module] = field(default_factory=dict)


class Fresh:
    """Names that a module does not use yet."""

    def __init__(self, tree: ast.Module) -> None:
        self._used = names_in(tree) | {part.arg for part in ast.walk(tree) if isinstance(part, ast.arg)}

    def __call__(self, word: str) -> str:
        number, name = 1, word
        while name in self._used:
            number += 1
            name = f"{word}{number}"
        self._used.add(name)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._used


def names_in(tree: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}


def stored_in(tree: ast.AST) -> set[str]:
    """Return the variables that some part of a tree sets, parameters among them."""
    set_here = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return set_here | {part.arg for part in ast.walk(tree) if isinstance(part, ast.arg)}


def blocks(tree: ast.Module) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    """Yield each list of statements outside of class bodies, with its owner and the name of the field."""
    for node in list(ast.walk(tree)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            inside = not isinstance(node, ast.ClassDef) and isinstance(block, list)
            if inside and block and isinstance(block[0], ast.stmt):
                yield node, name, block


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, _IMPORTS)


def first_place(tree: ast.Module) -> int:
    """Return where a statement may stand first: behind the docstring and imports from the future."""
    return next(
        (
            place
            for place, statement in enumerate(tree.body)
            if not is_docstring(statement)
            and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
        ),
        len(tree.body),
    )


def behind_imports(tree: ast.Module) -> int:
    """Return the place of the first statement that is no import."""
    start = first_place(tree)
    return next((p for p, node in enumerate(tree.body) if p >= start and not is_import(node)), len(tree.body))


def free_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the plain functions of a module: no tests, nothing decorated, not `main`."""
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.decorator_list
        and node.name != "main"
        and not node.name.startswith("test")
    ]


def definitions(tree: ast.Module) -> list[Definition]:
    return [node for node in tree.body if isinstance(node, Definition)]


def names_of_module(tree: ast.Module) -> set[str]:
    """Return what imports and definitions of a module bind."""
    imported = (alias for node in tree.body if isinstance(node, _IMPORTS) for alias in node.names)
    return {alias.asname or alias.name.split(".")[0] for alias in imported} | {node.name for node in definitions(tree)}


class Renamed(ast.NodeTransformer):
    """Reads of some names become other expressions."""

    def __init__(self, expressions: dict[str, str]) -> None:
        self._expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        text = self._expressions.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if text is None else ast.parse(text, mode="eval").body
