"""Compiled kernels chosen by timing (DET404)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.autotuning import depends_on_choice
from detlint.linter.context import Call, Context
from detlint.linter.defaults import text_by_default
from detlint.linter.environment import environment_writes
from detlint.linter.program import Program, attribute_writes
from detlint.linter.registry import check, check_file
from detlint.linter.seeding import seeding_of

_CONFIG = "torch._inductor.config."
_ENVIRONMENT = "os.environ."
# `triton.autotune`, and what projects wrap around it.
_AUTOTUNES = "autotune"


@check("DET404")
def autotuned_compile(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent in programs that ask for deterministic algorithms."""
    named = [parameter.name for parameter in call.trigger.parameters if parameter.name.endswith("mode")]
    given = call.argument(named[-1]).value
    mode = text_by_default(given, ctx) if given is not None else ""
    options = call.argument("options").value
    if mode.startswith("max-autotune"):
        setting = f'mode="{mode}"'
    elif (written := _written(options, ctx)) is not None and (option := _autotuning_option(written, ctx)):
        setting = f"option {option!r}"
    else:
        return
    if not _asks_for_determinism(ctx) and not _names_mode(call.node, ctx):
        yield ctx.finding(call.node, setting=setting)


def _written(options: ast.expr | None, ctx: Context) -> ast.Dict | None:
    """Return the dictionary that options are, written in the call or under a name."""
    made = [value.node for value in ctx.values(options)] if options is not None else []
    return made[0] if len(made) == 1 and isinstance(made[0], ast.Dict) else None


def _names_mode(node: ast.AST, ctx: Context) -> bool:
    """`if strategy == "max-autotune":` who comes here asked for it."""
    tests = [parent.test for parent in ctx.ancestors(node) if isinstance(parent, ast.If)]
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith("max-autotune")
        for test in tests
        for part in ast.walk(test)
    )


@check_file("DET404")
def autotuned_kernel(ctx: Context) -> Iterator[Finding]:
    """A finding a kernel, at its decorator."""
    if not any(_AUTOTUNES in name for name in ctx.module.calls):
        return
    if _asks_for_determinism(ctx):
        return
    for kernel in ctx.module.index.of_type(ast.FunctionDef):
        for tuner in kernel.decorator_list:
            name = ast.unparse(tuner.func) if isinstance(tuner, ast.Call) else ""
            if isinstance(tuner, ast.Call) and _AUTOTUNES in name and depends_on_choice(kernel, tuner, ctx):
                yield ctx.finding(tuner, setting=name)


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
