"""Does a draw only fill the field of a seed, for whoever clicks on a die beside it? It can be read there, and kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Where a handler of Gradio is told what its results go to: `button.click(fn, inputs, outputs)`.
_OUTPUTS, _PLACE = "outputs", 2


def fills_seed_field(draw: ast.AST, ctx: Context) -> bool:
    """`die.click(lambda: random.randint(0, 999), outputs=seed)`, or the name of a function in its place."""
    handlers = (around for around in ctx.ancestors(draw) if isinstance(around, (*FUNCTIONS, ast.Lambda)))
    handler = next(handlers, None)
    shown = [_shown_in(use, ctx) for use in _uses(handler, ctx)] if handler is not None else []
    return bool(shown) and all(map(_are_seeds, shown))


def _uses(handler: ast.AST, ctx: Context) -> Iterator[ast.expr]:
    if isinstance(handler, ast.Lambda):
        yield handler
    elif isinstance(handler, FUNCTIONS):
        yield from (use for use in ctx.module.index.names_used.get(handler.name, ()) if isinstance(use, ast.expr))


def _shown_in(handler: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what the call that a handler is given to names as its outputs."""
    parent = ctx.parent(handler)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is handler:
        return None
    named = next((word.value for word in call.keywords if word.arg == _OUTPUTS), None)
    return named or next(iter(call.args[_PLACE:]), None)


def _are_seeds(outputs: ast.expr | None) -> bool:
    fields = outputs.elts if isinstance(outputs, (ast.List, ast.Tuple)) else [outputs]
    return bool(fields) and all("seed" in identifier(field).lower() for field in fields)
