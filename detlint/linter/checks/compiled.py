"""Compiled kernels chosen by timing (DET404)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.context import Call, Context
from detlint.linter.environment import environment_writes
from detlint.linter.nodes import walk
from detlint.linter.program import Program, attribute_writes
from detlint.linter.registry import check, check_file
from detlint.linter.seeding import seeding_of

_CONFIG = "torch._inductor.config."
_ENVIRONMENT = "os.environ."
_AUTOTUNE = "triton.autotune"
_CONFIGURATION = "triton.Config"
# In so many parts a sum is computed that are then added up: each number of parts rounds differently.
_SPLITS = re.compile(r"split_?k|num_splits|k_splits?", re.IGNORECASE)


@check("DET404")
def autotuned_compile(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent in programs that ask for deterministic algorithms."""
    if call.name == _AUTOTUNE:
        if any(_SPLITS.search(key) and _differ(values) for key, values in _tuned(call, ctx).items()):
            yield ctx.finding(call.node, setting="triton.autotune over splits of a sum")
        return
    named = [parameter.name for parameter in call.trigger.parameters if parameter.name.endswith("mode")]
    mode = ctx.constant(call.argument(named[-1]).value)
    options = call.argument("options").value
    if isinstance(mode, str) and mode.startswith("max-autotune"):
        setting = f'mode="{mode}"'
    elif isinstance(options, ast.Dict) and (option := _autotuning_option(options, ctx)):
        setting = f"option {option!r}"
    else:
        return
    if not _asks_for_determinism(ctx) and not _names_mode(call.node, ctx):
        yield ctx.finding(call.node, setting=setting)


def _names_mode(node: ast.AST, ctx: Context) -> bool:
    """`if strategy == "max-autotune":` who comes here asked for it."""
    tests = [parent.test for parent in ctx.ancestors(node) if isinstance(parent, ast.If)]
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith("max-autotune")
        for test in tests
        for part in ast.walk(test)
    )


def _tuned(call: Call, ctx: Context) -> dict[str, set[str]]:
    """Return the values that a kernel is tried with, by the name of what they are given to, as they are written."""
    tried: dict[str, set[str]] = {}
    for node, inside in _written_out(call.argument("configs").value, ctx):
        for part in walk(node):
            given = part.args[0] if isinstance(part, ast.Call) and part.args else None
            if isinstance(given, ast.Dict) and _CONFIGURATION in inside.callees(part):
                for key, value in zip(given.keys, given.values, strict=True):
                    name = inside.constant(key)
                    if isinstance(name, str):
                        tried.setdefault(name, set()).add(ast.unparse(value))
    return tried


def _differ(values: set[str]) -> bool:
    """Are there several, or one that is no number but the variable of a loop?"""
    return len(values) > 1 or not all(value.isdigit() for value in values)


def _written_out(node: ast.expr | None, ctx: Context) -> Iterator[tuple[ast.AST, Context]]:
    """Yield an expression, and what it names or calls: a list above the kernel, a function that makes one."""
    if node is None:
        return
    yield node, ctx
    for part in walk(node):
        if isinstance(part, ast.Name):
            values = (binding.value for binding in ctx.module.definitions(part))
            yield from ((value, ctx) for value in values if value is not None)
        elif isinstance(part, ast.Call):
            found = (ctx.module.project.definition(name) for name in ctx.callees(part))
            yield from ((made[1], ctx.elsewhere(made[0])) for made in found if made is not None)


@check_file("DET404")
def autotuning_switched_on(ctx: Context) -> Iterator[Finding]:
    """The same through inductor's settings or the environment."""
    options, variables = _named(ctx, _CONFIG), _named(ctx, _ENVIRONMENT)
    found: list[tuple[ast.AST, str]] = [
        (write.node, write.name.removeprefix("torch._"))
        for write in attribute_writes(ctx.module, frozenset(option.rpartition(".")[2] for option in options))
        if write.name.removeprefix(_CONFIG) in options and ctx.truth(write.value) is Truth.YES
    ]
    for write in environment_writes(ctx.module, ctx.constant):
        if write.variable in variables and ctx.constant(write.value) == "1":
            found.append((write.node, write.variable))
    if found and not _asks_for_determinism(ctx):
        yield from (ctx.finding(node, setting=setting) for node, setting in found)


def _named(ctx: Context, owner: str) -> frozenset[str]:
    """Return what the rule's triggers name under `owner`: settings that are written, not called."""
    names = (trigger.name for trigger in ctx.rule.triggers)
    return frozenset(name.removeprefix(owner) for name in names if name.startswith(owner))


def _autotuning_option(options: ast.Dict, ctx: Context) -> str:
    for key, value in zip(options.keys, options.values, strict=True):
        name = ctx.constant(key)
        if isinstance(name, str) and name in _named(ctx, _CONFIG) and ctx.truth(value) is Truth.YES:
            return name
    return ""


def _asks_for_determinism(ctx: Context) -> bool:
    return seeding_of(ctx.program or Program(ctx.module, is_library=True)).requests_determinism
