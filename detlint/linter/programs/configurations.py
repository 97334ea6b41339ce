"""What is a Triton kernel tried out with? The values of its configurations, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.source.nodes import walk

_CONFIGURATION = "triton.Config"


def tried(tuner: ast.Call, ctx: Context) -> dict[str, list[ast.expr]]:
    """Return the values that are tried by the name of what they are given to."""
    named = [keyword.value for keyword in tuner.keywords if keyword.arg == "configs"]
    configs = next(iter(named or tuner.args), None)
    found: dict[str, list[ast.expr]] = {}
    for node, inside in _written_out(configs, ctx):
        for part in walk(node):
            if isinstance(part, ast.Call) and _CONFIGURATION in inside.callees(part):
                for name, value in _given(part):
                    found.setdefault(name, []).append(value)
    return found


def _given(configuration: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield what `triton.Config({"BLOCK": 64}, num_warps=4)` sets."""
    meta = configuration.args[0] if configuration.args else None
    if isinstance(meta, ast.Dict):
        for key, value in zip(meta.keys, meta.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value), value
    yield from ((keyword.arg, keyword.value) for keyword in configuration.keywords if keyword.arg)


def _written_out(node: ast.expr | None, ctx: Context) -> Iterator[tuple[ast.AST, Context]]:
    """Yield an expression, and what it names or calls: a list above the kernel, a function that makes one."""
    for part in walk(node) if node is not None else ():
        if part is node:
            yield part, ctx
        if isinstance(part, ast.Name):
            values = (binding.value for binding in ctx.module.definitions(part))
            yield from ((value, ctx) for value in values if value is not None)
        elif isinstance(part, ast.Call):
            yield from definitions(part, ctx)


def definitions(call: ast.Call, ctx: Context) -> Iterator[tuple[ast.AST, Context]]:
    found = (ctx.module.project.definition(name) for name in ctx.callees(call))
    yield from ((made[1], ctx.elsewhere(made[0])) for made in found if made is not None)
