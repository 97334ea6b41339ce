"""Where else does a project call a function? By its qualified name, in every other file that mentions it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.names import FunctionNode
from detlint.linter.project import Module
from detlint.linter.testcode import is_test_file

_MOST_FILES = 24  # with a name that more files hold, as `evaluate` may be, calls are not looked for


def calls_elsewhere(module: Module, function: FunctionNode) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a module's function in other files, and `Evaluator().evaluate(net)` in its own.

    Calls of a method through the `self` of its own class are not among them, nor what tests do.
    """
    search = module.project.search(function.name, module, _MOST_FILES)
    qualified = module.qualified(function)
    for path in (search.found if search is not None else None) or ():
        other = module if path == module.path else module.project.at(path)
        if function.name not in other.calls or is_test_file(other):
            continue
        for call in other.index.calls_by_name.get(function.name, ()):
            own = other is module and isinstance(call.func, ast.Name)
            if not own and not _is_on_self(call) and qualified in other.inference.callees(call):
                yield other, call


def _is_on_self(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in ("self", "cls")
