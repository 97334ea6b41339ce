"""May a file use a definition of another one? Its outline tells, which spares parsing what only has a like name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import as_attribute
from detlint.linter.analysis.program import calls_named
from detlint.linter.source.names import FunctionNode

_MOST_FILES = 48  # that use a method of a name, such as `load`


def calls_among(modules: Sequence[Module], owner: Module, function: FunctionNode) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls in `modules` that mean a function of `owner`; none of a method whose name too many files use."""
    users = [module for module in modules if may_use(module, owner, function)]
    if owner.index.class_at(function) is not None and len(users) > _MOST_FILES:
        return
    qualified = owner.qualified(function)
    for module in users:
        for call in calls_named(module, (function.name,)):
            if qualified in module.inference.callees(call):
                yield module, call


def may_use(user: Module, owner: Module, definition: FunctionNode | ast.ClassDef) -> bool:
    """Return whether the names that a file reads and imports leave it open that it uses a definition of `owner`.

    A method may be one of any object; `__init__` is called by who names the class.
    """
    name, reads = definition.name, user.may_read
    around = owner.index.class_at(definition)
    if around is not None:
        made = name == "__init__"
        return reads(as_attribute(name)) if not made else user.imports_name(around.name) or reads(around.name)
    if user is owner or user.stars or user.imports_name(name):
        return reads(name)
    return reads(as_attribute(name)) and any(
        each is owner or name in each.binds or each.stars or owner.name.startswith(f"{each.name}.")
        for each in user.imports
    )
