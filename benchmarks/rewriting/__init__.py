"""Rewrites of a module that keep what it does: the same program, as somebody else would have written it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .functions import FUNCTIONS
from .places import PLACES
from .statements import STATEMENTS
from .trees import Rewritten

REWRITES: dict[str, Callable[[ast.Module], Rewritten | None]] = {**STATEMENTS, **FUNCTIONS, **PLACES}


def rewritten(code: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what becomes of a module under each rewrite that changes it: the rewrite's name, and the text of each file.

    The module itself goes by the name "". What does not compile is left out: a rewrite may give a name twice.
    """
    plain = ast.unparse(ast.parse(code))
    for name, rewrite in REWRITES.items():
        result = rewrite(ast.parse(plain))
        if result is None:
            continue
        texts = {"": ast.unparse(ast.fix_missing_locations(result.tree))}
        texts |= {path: ast.unparse(ast.fix_missing_locations(tree)) for path, tree in result.beside.items()}
        if texts[""] != plain and all(map(_compiles, texts.values())):
            yield name, texts


def _compiles(text: str) -> bool:
    try:
        compile(text, "rewritten", "exec")
    except SyntaxError:
        return False
    return True
