"""Where does a program begin to do something, and how is a line put there that needs a module to be imported?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import is_main_guard
from detlint.linter.analysis.repairs import Change, insert_before
from detlint.linter.source.names import FUNCTIONS, BindingKind

_IMPORTS = (ast.Import, ast.ImportFrom)


def insert_at_start(module: Module, library: str, template: str, before: ast.AST | None = None) -> tuple[Change, ...]:
    """Put a line before all that a program does; `template` names `library` as `{}`, which is imported if need be.

    So before a class or a function that does something as it is defined, if that is `before`. Nothing where the program
    has no such place.
    """
    start = _earlier(_start(module.tree), _statement_at_top(module, before))
    if start is None:
        return ()
    name = _imported_as(module, library, start)
    if name is not None:
        return (insert_before(start, template.format(name)),)
    first = next((each for each in module.tree.body if isinstance(each, _IMPORTS) and not _is_future(each)), None)
    bound = library in module.index.root.bindings or module.index.root.stars  # `*` may bring any name
    if first is None or bound or first.lineno > start.lineno:
        return ()
    return insert_before(first, f"import {library}"), insert_before(start, template.format(library))


def _statement_at_top(module: Module, node: ast.AST | None) -> ast.stmt | None:
    """Return the definition at the top of a file that does something, as it is read, where a node stands."""
    if node is None or module.index.function_at(node) is not None:
        return None
    around = [node, *module.index.ancestors(node)]
    return next((each for each in around if isinstance(each, ast.stmt) and each in module.tree.body), None)


def _earlier(start: ast.stmt | None, other: ast.stmt | None) -> ast.stmt | None:
    if start is None or other is None or other.lineno > start.lineno:
        return start
    return other


def _start(tree: ast.Module) -> ast.stmt | None:
    """Return the first statement that runs and is no definition; of a `__main__` guard, the first inside."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and is_main_guard(statement):
            return statement.body[0]
        if not _only_defines(statement):
            return statement
    return None


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(statement, (*_IMPORTS, *FUNCTIONS, ast.ClassDef, ast.Pass)):  # magics of notebooks became `pass`
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
        return isinstance(statement.value, ast.Constant) or statement.value is None
    if isinstance(statement, (ast.Try, ast.If)):
        return all(map(_only_defines, [*statement.body, *statement.orelse]))
    return False


def _imported_as(module: Module, library: str, start: ast.stmt) -> str | None:
    """Return the name that a library has at the top of the file once `start` is reached."""
    for name, bindings in module.index.root.bindings.items():
        only = bindings[0] if len(bindings) == 1 else None
        if only is None or only.kind is not BindingKind.IMPORT or only.target != library:
            continue
        if getattr(only.node, "lineno", start.lineno) < start.lineno:
            return name
    return None


def _is_future(statement: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
