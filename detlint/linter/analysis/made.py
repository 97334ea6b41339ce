"""What is a variable made of, as it is written where it is bound?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, unpacked
from detlint.linter.source.nodes import unless_none

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module
    from detlint.linter.source.index import Index

_MAX_STEPS = 3


def made_of(module: Module, node: ast.expr) -> list[ast.expr | None]:
    """Return what each binding of a variable is written with; None for one that is not, as in a loop.

    That is `listed` of `files, count = listed, 0` and of `files = listed if wanted else None`.
    """
    bindings = module.definitions(node) if isinstance(node, ast.Name) else ()
    return [None if binding.kind is BindingKind.ITERATION else given_to(binding) for binding in bindings]


def given_to(binding: Binding) -> ast.expr | None:
    """Return what a binding is written with, the only thing that it may be besides None."""
    if binding.kind is not BindingKind.ASSIGN:
        return None if binding.index else binding.value
    value = unpacked(binding)
    return unless_none(value)


def written(value: ast.expr, module: Module, steps: int = _MAX_STEPS) -> tuple[ast.expr, Module]:
    """Return `os.listdir(folder)` for `listed(root)`, after `def listed(folder): return os.listdir(folder)`.

    With the module that it stands in. What is no call of a function of the project that returns one thing stays as it
    is, but for `files if wanted else None`.
    """
    value = unless_none(value)
    names = module.inference.callees(value) if isinstance(value, ast.Call) and steps else ()
    where, function = (module.project.definition(names[0]) if len(names) == 1 else None) or (module, None)
    if not isinstance(function, FUNCTIONS):
        return value, module
    returned = [statement.value for statement in where.flow(where.index.scopes[function]).returns()]
    only = returned[0] if len(returned) == 1 else None
    made = made_of(where, only) if only is not None else []
    only = made[0] if len(made) == 1 else only  # `names = os.listdir(folder)`, `return names`
    return (value, module) if only is None else written(only, where, steps - 1)


def target_of(node: ast.expr, index: Index) -> ast.expr | None:
    """Return the one target that an expression is assigned to.

    That is `files` of `files = listed`, of `files, count = listed, 0` and of `files = listed if wanted else None`.
    """
    given = index.with_choice(node)
    statement = index.parents.get(given)
    if isinstance(statement, (ast.Tuple, ast.List)):
        return place_taken(given, statement, index)
    single = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is given
    return statement.targets[0] if isinstance(statement, ast.Assign) and single else None


def place_taken(node: ast.expr, display: ast.Tuple | ast.List, index: Index) -> ast.expr | None:
    """Return what stands at the place of `node` in the targets that a tuple is unpacked into where it is written."""
    statement = index.parents.get(display)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    starred = any(isinstance(part, ast.Starred) for part in (*parts, *display.elts))
    return parts[display.elts.index(node)] if len(parts) == len(display.elts) and not starred else None
