"""What is written into the elements of a tensor or an array under its name?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.source.nodes import arguments_of, identifier

_EXACT = (ast.Add, ast.Sub, ast.Mult)


def written_into(module: Module, name: ast.Name, sums: bool = True) -> Iterator[ast.expr | None]:
    """Yield each value that is put in, also under other definitions of the name; None where that is not told.

    So with `x.uniform_(0, 1)`, `nn.init.normal_(x)`, and `x[i] += y` unless `y` will do, as it does for `sums`.
    """
    for use in module.index.uses_of(name):
        place = module.index.entry_of(use)
        parent = module.index.parents.get(place)
        if isinstance(parent, ast.Assign) and parent.value is not place:
            yield parent.value
        elif isinstance(parent, ast.AugAssign) and parent.value is not place:
            yield parent.value if sums and isinstance(parent.op, _EXACT) else None
        elif _is_written_by(parent, use):
            yield None


def _is_written_by(parent: ast.AST | None, use: ast.Name) -> bool:
    if isinstance(parent, ast.Call):
        return use in arguments_of(parent) and _writes(identifier(parent.func))
    return isinstance(parent, ast.Attribute) and _writes(parent.attr)


def _writes(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")
