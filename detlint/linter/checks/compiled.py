"""Compiled kernels chosen by timing (DET404)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.attribute_writes import attribute_writes
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.defaults import text_by_default
from detlint.linter.analysis.never_taken import is_never_run
from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.spread import spread
from detlint.linter.analysis.unsaid import Found, default_of_field
from detlint.linter.programs.autotuning import depends_on_choice
from detlint.linter.programs.elementwise import compiles_no_sums
from detlint.linter.programs.environment import environment_writes
from detlint.linter.randomness.determinism import asks_for_deterministic_algorithms
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, walk

_CONFIG = "torch._inductor.config."
_ENVIRONMENT = "os.environ."
_TUNABLE = "torch.cuda.tunable.enable"
# `triton.autotune`, and what projects wrap around it.
_AUTOTUNES = "autotune"
_AUTOTUNED = "max-autotune"


@check("DET404")
def autotuned_compile(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent in programs that ask for deterministic algorithms, and in branches for other releases of torch."""
    named = [parameter.name for parameter in call.trigger.parameters if parameter.name.endswith("mode")]
    if not named:
        return  # a setting, which is written and not called
    given = _given(named[-1], call, ctx)
    mode = text_by_default(*given) if given is not None else ""
    options = _given("options", call, ctx)
    if mode.startswith(_AUTOTUNED):
        setting = f'mode="{mode}"'
    elif (written := _written(*options) if options is not None else None) is not None and (
        option := _autotuning_option(written, ctx)
    ):
        setting = f"option {option!r}"
    else:
        return
    asked = asks_for_deterministic_algorithms(ctx) or _names_mode(call.node, ctx)
    if not asked and not is_never_run(call.node, ctx) and not compiles_no_sums(call.node, ctx):
        yield ctx.finding(call.node, setting=setting)


@check("DET404")
def autotuned_products(call: Call, ctx: Context) -> Iterator[Finding]:
    """`torch.cuda.tunable.enable()`: matrix products are timed where no earlier run has left its choices in a file."""
    switch = call.argument("val").value
    if call.name == _TUNABLE and ctx.truth(switch) is Truth.YES and not asks_for_deterministic_algorithms(ctx):
        yield ctx.finding(call.node, setting=call.name)


@check_file("DET404")
def autotuned_by_field(ctx: Context) -> Iterator[Finding]:
    """`torch_compile_mode: str = "max-autotune"` in a class that derives from training arguments."""
    if not ctx.module.holds_text(_AUTOTUNED):
        return
    for owner, info in ctx.module.classes.items():
        bases = (ctx.rule.triggers_by_name.get(base) for base in ctx.inference.external_bases(info))
        modes = {part.name for base in bases if base for part in base.parameters if part.name.endswith("mode")}
        for field in owner.body if modes else ():
            named = isinstance(field, ast.AnnAssign) and identifier(field.target) in modes
            value = (
                default_of_field(field.value) if isinstance(field, ast.AnnAssign) and named and field.value else None
            )
            mode = text_by_default(value, ctx) if value is not None else ""
            if mode.startswith(_AUTOTUNED) and not asks_for_deterministic_algorithms(ctx):
                yield ctx.finding(field, setting=f'mode="{mode}"')


def _given(name: str, call: Call, ctx: Context) -> Found | None:
    """Return what a call passes, or what it spreads unless a caller says otherwise."""
    argument = call.argument(name)
    if argument.value is not None:
        return argument.value, ctx
    return spread(name, call.node, ctx) if argument.hidden else None


def _written(options: ast.expr, ctx: Context) -> ast.Dict | None:
    """Return the dictionary that options are, in the call or under a name, also as `dict(max_autotune=True)`."""
    made = [value.node for value in ctx.values(options)]
    if len(made) == 1 and isinstance(made[0], ast.Call) and "builtins.dict" in ctx.callees(made[0]):
        return _of_keywords(made[0])
    return made[0] if len(made) == 1 and isinstance(made[0], ast.Dict) else None


def _of_keywords(call: ast.Call) -> ast.Dict:
    """Return the display of what a call is given by name."""
    named = [keyword for keyword in call.keywords if keyword.arg is not None]
    return ast.Dict([ast.Constant(keyword.arg) for keyword in named], [keyword.value for keyword in named])


def _names_mode(node: ast.AST, ctx: Context) -> bool:
    """`if strategy == "max-autotune":` who comes here asked for it."""
    tests = [parent.test for parent in ctx.ancestors(node) if isinstance(parent, ast.If)]
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith(_AUTOTUNED)
        for test in tests
        for part in ast.walk(test)
    )


@check_file("DET404")
def autotuned_through_helper(ctx: Context) -> Iterator[Finding]:
    """`@lazy_compile(mode="max-autotune")` of the project, and `net.compile(mode="max-autotune")` of any module."""
    for text in ctx.module.index.of_type(ast.Constant) if _AUTOTUNED in ctx.module.source.text else ():
        if not isinstance(text.value, str) or not text.value.startswith(_AUTOTUNED):
            continue
        keyword = ctx.parent(text)
        call = ctx.parent(keyword) if isinstance(keyword, ast.keyword) else keyword
        if not isinstance(call, ast.Call) or not _compiles_so(call, keyword, text, ctx):
            continue
        if compiles_no_sums(call, ctx):
            continue
        if not asks_for_deterministic_algorithms(ctx) and not _names_mode(call, ctx):
            yield ctx.finding(call, setting=f'mode="{text.value}"')


def _compiles_so(call: ast.Call, keyword: ast.AST | None, text: ast.Constant, ctx: Context) -> bool:
    """Does a call hand a mode on to `torch.compile`?"""
    names = ctx.callees(call)
    named = keyword.arg if isinstance(keyword, ast.keyword) else None
    if not names:
        return identifier(call.func) == "compile" and isinstance(call.func, ast.Attribute) and named == "mode"
    for definition in (ctx.module.project.definition(name) for name in names):
        if definition is None or not isinstance(definition[1], FUNCTIONS):
            continue
        function, inside = definition[1], ctx.elsewhere(definition[0])
        if any(_hands_on(part, function, call, text, inside) for part in walk(function)):
            return True
    return False


def _hands_on(part: ast.AST, function: FunctionNode, call: ast.Call, text: ast.Constant, inside: Context) -> bool:
    """`torch.compile(net, mode=mode)`, `torch.compile(net, **options)` in a function that is given a mode."""
    if not isinstance(part, ast.Call) or "torch.compile" not in inside.callees(part):
        return False
    options = function.args.kwarg
    for keyword in part.keywords:
        handed = getattr(keyword.value, "id", "")
        if keyword.arg is None and options is not None and handed == options.arg:
            return any(given.arg == "mode" and given.value is text for given in call.keywords)
        skip = isinstance(call.func, ast.Attribute)
        if keyword.arg == "mode" and handed and argument_of(function, handed, call, skip_self=skip) is text:
            return True
    return False


@check_file("DET404")
def autotuned_kernel(ctx: Context) -> Iterator[Finding]:
    """A finding a kernel, at its decorator."""
    if not any(_AUTOTUNES in name for name in ctx.module.calls):
        return
    if asks_for_deterministic_algorithms(ctx):
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
    found += ((call, f"{_CONFIG.removeprefix('torch._')}{option}") for call, option in _patched(ctx))
    for write in environment_writes(ctx.module, ctx.constant):
        if write.variable in variables and ctx.constant(write.value) == "1":
            found.append((write.node, write.variable))
    if found and not asks_for_deterministic_algorithms(ctx):
        yield from (ctx.finding(node, setting=setting) for node, setting in found)


def _patched(ctx: Context) -> Iterator[tuple[ast.Call, str]]:
    """`torch._inductor.config.patch(max_autotune=True)`, or the same with a dictionary."""
    for call in calls_named(ctx.module, ("patch",)):
        if f"{_CONFIG}patch" in ctx.callees(call):
            written = [_written(argument, ctx) for argument in call.args[:1]]
            for options in [_of_keywords(call), *(each for each in written if each is not None)]:
                if option := _autotuning_option(options, ctx):
                    yield call, option


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
