"""Compiled kernels chosen by timing (DET404)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.context import Call, Context
from detlint.linter.environment import environment_writes
from detlint.linter.program import Program, attribute_writes
from detlint.linter.registry import check, check_file
from detlint.linter.seeding import seeding_of

_OPTIONS = frozenset(
    {
        "coordinate_descent_tuning",
        "max_autotune",
        "max_autotune_gemm",
        "max_autotune_pointwise",
        "triton.autotune_at_compile_time",
    }
)
_CONFIG = "torch._inductor.config."
_VARIABLES = frozenset(
    {
        "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM",
        "TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE",
    }
)


@check("DET404")
def autotuned_compile(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent in programs that ask for deterministic algorithms."""
    named = [parameter.name for parameter in call.trigger.parameters if parameter.name.endswith("mode")]
    mode = ctx.constant(call.argument(named[-1]).value)
    options = call.argument("options").value
    if isinstance(mode, str) and mode.startswith("max-autotune"):
        setting = f'mode="{mode}"'
    elif isinstance(options, ast.Dict) and (option := _autotuning_option(options, ctx)):
        setting = f"option {option!r}"
    else:
        return
    if not _asks_for_determinism(ctx):
        yield ctx.finding(call.node, setting=setting)


@check_file("DET404")
def autotuning_switched_on(ctx: Context) -> Iterator[Finding]:
    """The same through inductor's settings or the environment."""
    lasts = frozenset(option.rpartition(".")[2] for option in _OPTIONS)
    found: list[tuple[ast.AST, str]] = [
        (write.node, write.name.removeprefix("torch._"))
        for write in attribute_writes(ctx.module, lasts)
        if write.name.removeprefix(_CONFIG) in _OPTIONS and ctx.truth(write.value) is Truth.YES
    ]
    for write in environment_writes(ctx.module, ctx.constant):
        if write.variable in _VARIABLES and ctx.constant(write.value) == "1":
            found.append((write.node, write.variable))
    if found and not _asks_for_determinism(ctx):
        yield from (ctx.finding(node, setting=setting) for node, setting in found)


def _autotuning_option(options: ast.Dict, ctx: Context) -> str:
    for key, value in zip(options.keys, options.values, strict=True):
        name = ctx.constant(key)
        if isinstance(name, str) and name in _OPTIONS and ctx.truth(value) is Truth.YES:
            return name
    return ""


def _asks_for_determinism(ctx: Context) -> bool:
    return seeding_of(ctx.program or Program(ctx.module, alone=True)).requests_determinism
