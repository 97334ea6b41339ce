"""What stands behind `**options` where a call is given them: what dictionaries say by name, what is put in later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.conditions import UNKNOWN
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def dictionaries(node: ast.expr, ctx: Context) -> list[dict[str, ast.expr]]:
    """Return what `dict(n_fft=512, **more)` or `{"n_fft": 512}` says by name, none where it may be something else."""
    found: list[dict[str, ast.expr]] = []
    for made in [value.node for value in ctx.values(node) if value.module is ctx.module]:
        if isinstance(made, ast.Dict):
            named = zip(made.keys, made.values, strict=True)
            found.append({str(key.value): value for key, value in named if isinstance(key, ast.Constant)})
        elif isinstance(made, ast.Call) and "builtins.dict" in ctx.callees(made) and not made.args:
            found.append({keyword.arg: keyword.value for keyword in made.keywords if keyword.arg is not None})
        else:
            return []
    return found


def put_in(function: ast.AST, options: str, name: str) -> ast.expr | None:
    """Return what `options.setdefault(name, value)` puts in where callers leave an argument out, or None."""
    for node in walk(function):
        if isinstance(node, ast.Call) and len(node.args) == 2 and getattr(node.func, "attr", "") == "setdefault":
            key, value = node.args
            if ast.unparse(node.func) == f"{options}.setdefault" and written(key) == name:
                return value
    return None


def is_set_later(options: ast.expr, name: str, ctx: Context) -> bool:
    """`options["deterministic"] = …`, which may stand under a condition, or for an attribute in another method."""
    index, function = ctx.module.index, ctx.function(options)
    stores = (index.parents.get(use) for use in index.names_used.get(identifier(options), ()))
    return any(
        isinstance(store, ast.Subscript)
        and isinstance(store.ctx, ast.Store)
        and (isinstance(options, ast.Attribute) or ctx.function(store) is function)
        and written(store.slice) == name
        for store in stores
    )


def written(node: ast.AST | None) -> object:
    """Return the literal that is written there, UNKNOWN for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    try:
        return ast.literal_eval(node) if isinstance(node, ast.expr) else UNKNOWN
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
