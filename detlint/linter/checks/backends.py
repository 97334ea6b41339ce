"""Switches of torch's backends that give up repeatable results (DET401, DET402, DET405)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.attribute_writes import Write, attribute_writes
from detlint.linter.analysis.context import MISSING, Call, Context
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.repairs import Repair, replace, safe
from detlint.linter.analysis.spread import spread
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.unsaid import Found, default_of_field
from detlint.linter.randomness.stray_flags import CUDNN_DETERMINISTIC, stray_flags
from detlint.linter.randomness.trainer_settings import trainer_options
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, is_own

_CHOICE = re.compile(r"seed|determin|reproduc|benchmark|fast|speed|debug|autotune", re.IGNORECASE)
_UNDOES = re.compile(
    r"(disable|unset|reset|restore|clear|undo|turn_off)\w*(determin|reproduc)|non_?determin|^tear_?down|^__a?exit__$",
    re.IGNORECASE,
)
_SEED = re.compile(r"seed", re.IGNORECASE)
_REPEATABLE = re.compile(r"^(use_|full_|be_|is_|set_|cudnn_)?(determin|reproduc)", re.IGNORECASE)
_BENCHMARK = "torch.backends.cudnn.benchmark"
_FLAG = re.compile(r"(^|\.)cudnn[._]benchmark$", re.IGNORECASE)
_SWITCHES = ("_deterministic", "deterministic", "mode", "d")
_WARNS = "only warns about nondeterministic operators and lets them run"
_NO = (False,)  # and 0, which is the same to torch
_OFF = {
    CUDNN_DETERMINISTIC: "lets cuDNN use algorithms that add in any order",
    "torch.utils.deterministic.fill_uninitialized_memory": "leaves what fresh memory holds to chance",
}


@check_file("DET401")
def cudnn_benchmark(ctx: Context) -> Iterator[Finding]:
    """Silent where the user chooses between speed and repeatable results."""
    for write in attribute_writes(ctx.module, ("benchmark",)):
        on = write.name == _BENCHMARK and truth_by_default(write.value, ctx) is Truth.YES
        if on and not _chosen_by_user(write.node, ctx):
            yield ctx.finding(write.node, repair=_off(write.node, write.value), setting="cudnn.benchmark")
    for node, setting, value in _configured(ctx):
        if not _chosen_by_user(node, ctx):
            yield ctx.finding(node, repair=_off(node, value), setting=setting)


@check("DET401")
def cudnn_benchmark_argument(call: Call, ctx: Context) -> Iterator[Finding]:
    """benchmark=True as an argument. What options for trainers say is reported where they are written."""
    name = "_benchmark" if call.name.endswith("set_flags") else "benchmark"
    found = _given(call, name, ctx)
    if found is None or found[1].constant(found[0]) is not True:
        return
    value, where = found
    if all(value is not option for _, option in trainer_options(where.module, name)):
        setting = f"{call.name.rpartition('.')[2]}(benchmark=True)"
        yield ctx.finding(call.node, repair=_off(call.node, call.argument(name).value), setting=setting)


def _given(call: Call, name: str, ctx: Context) -> Found | None:
    """Return what a switch is given, behind `**` too."""
    argument = call.argument(name)
    if argument.hidden:
        return spread(name, call.node, ctx)
    return (argument.value, ctx) if argument.given and argument.value is not None else None


def _off(node: ast.AST, value: ast.expr | None) -> Repair | None:
    """Write False for a True that sets nothing else."""
    shared = isinstance(node, ast.Assign) and len(node.targets) > 1
    return (
        safe("switch it off", replace(value, "False")) if value is not None and _is_true(value) and not shared else None
    )


def _configured(ctx: Context) -> Iterator[tuple[ast.AST, str, ast.expr]]:
    """Yield where settings turn on a flag called cudnn_benchmark or CUDNN.BENCHMARK, or a trainer's, with its value."""
    index = ctx.module.index
    for statement in index.of_type(ast.Assign):
        for target in statement.targets if _is_true(statement.value) else ():
            if isinstance(target, (ast.Name, ast.Attribute)):
                text = ast.unparse(target)
                if not _FLAG.search(text) or text == "cudnn.benchmark":
                    continue
                if isinstance(target, ast.Name) or _BENCHMARK not in ctx.resolve(target):
                    yield statement, text, statement.value
    for field in index.of_type(ast.AnnAssign):
        value = default_of_field(field.value) if field.value is not None else None
        if value is not None and _is_true(value) and _FLAG.search(ast.unparse(field.target)):
            yield field, ast.unparse(field.target), value
    for place, name, value in index.given_by_name():
        if _is_true(value) and _FLAG.search(name):
            yield place, name, value
    for node, value in trainer_options(ctx.module, "benchmark"):
        if _is_true(value):
            yield node, "Trainer(benchmark=True)", value


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


@check("DET402")
def determinism_disabled(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent in what tests try, where determinism was on just before, and where the user chooses."""
    if _is_trial(call.node, ctx) or _is_undoing(call.node, ctx):
        return
    chosen = _chosen_by_user(call.node, ctx)
    short = call.name.rpartition(".")[2]
    if call.name.endswith("debug_mode"):
        mode = ctx.constant(call.argument("debug_mode").value)
        if mode in (0, "default") and mode is not False and not chosen and not _was_on(call, ctx):
            yield ctx.finding(call.node, setting=f"{short}({mode!r})", effect="allows nondeterministic operators")
        elif mode in (1, "warn"):
            yield ctx.finding(call.node, setting=f"{short}({mode!r})", effect=_WARNS)
    elif call.name.endswith("enable_full_determinism"):
        yield from _only_warns(call, ctx)
    else:
        parameter = next(name for name in _SWITCHES if any(p.name == name for p in call.trigger.parameters))
        found = _given(call, parameter, ctx)
        value = found[1].constant(found[0]) if found is not None else None
        if value == "warn" or (found is not None and value is MISSING and _warns_on_one_way(*found)):
            yield ctx.finding(call.node, setting=f"{short}(deterministic='warn')", effect=_WARNS)
        elif value not in _NO:
            yield from _only_warns(call, ctx)
        elif not chosen and not _was_on(call, ctx):
            written = "False" if parameter in ("mode", "d") else f"{parameter.lstrip('_')}=False"
            yield ctx.finding(call.node, setting=f"{short}({written})", effect="allows nondeterministic operators")


def _warns_on_one_way(value: ast.expr, ctx: Context) -> bool:
    """`deterministic = False if seed is None else "warn"`, in a branch that nobody asks for by that name."""
    nodes = [each.node for each in ctx.values(value) if each.module is ctx.module]
    warns = [node for node in nodes if isinstance(node, ast.Constant) and node.value == "warn"]
    return any(not _chosen_by_user(node, ctx) and not _asked_for_warnings(node, ctx) for node in warns)


def _only_warns(call: Call, ctx: Context) -> Iterator[Finding]:
    """A user who asked for determinism gets half of it, one who asked for warnings what was asked for."""
    argument = call.argument("warn_only")
    on = argument.value is not None and truth_by_default(argument.value, ctx) is Truth.YES
    if on and not _asked_for_warnings(call.node, ctx):
        short = call.name.rpartition(".")[2]
        yield ctx.finding(call.node, setting=f"{short}(warn_only=True)", effect=_WARNS)


def _asked_for_warnings(node: ast.AST, ctx: Context) -> bool:
    return any(isinstance(parent, ast.If) and "warn" in ast.unparse(parent.test) for parent in ctx.ancestors(node))


def _was_on(call: Call, ctx: Context) -> bool:
    """Does the same function switch it on before, so that this call only puts things back?"""
    function, switch = ctx.function(call.node), call.trigger.parameters[0].name
    for other in calls_named(ctx.module, (call.name.rpartition(".")[2],)):
        if other.lineno >= call.node.lineno or ctx.function(other) is not function:
            continue
        if call.name in ctx.callees(other):
            before = ctx.constant(Call(other, call.trigger).argument(switch).value)
            if before not in (False, 0, "default", 1, "warn") or before is True:
                return True
    return False


@check_file("DET402")
def determinism_flag_cleared(ctx: Context) -> Iterator[Finding]:
    """The same for flags that are assigned."""
    lasts = frozenset(name.rpartition(".")[2] for name in _OFF)
    writes = list(attribute_writes(ctx.module, lasts))
    for write in writes:
        effect = _OFF.get(write.name)
        if effect is None or not _is_off(write.value, ctx) or _chosen_by_user(write.node, ctx):
            continue
        if not _is_trial(write.node, ctx) and not _is_undoing(write.node, ctx) and not _was_set(write, writes, ctx):
            yield ctx.finding(write.node, setting=f"{write.name.removeprefix('torch.')} = False", effect=effect)


@check_file("DET402")
def misspelt_flag(ctx: Context) -> Iterator[Finding]:
    """`cudnn.determinstic = True`, `cuda.deterministic = True`: no error, but an attribute that nothing reads."""
    for write in stray_flags(ctx.module):
        if ctx.truth(write.value) is Truth.YES:
            setting = f"{write.name.removeprefix('torch.')} = True"
            remedy, effect = f"Write {CUDNN_DETERMINISTIC} = True.", "sets an attribute that nothing reads"
            yield ctx.finding(write.node, remedy=remedy, setting=setting, effect=effect)


def _is_off(value: ast.expr, ctx: Context) -> bool:
    """`False`, and a parameter that is False unless a caller says otherwise; an option is there to be chosen."""
    if isinstance(value, ast.Name) or is_own(value):
        return truth_by_default(value, ctx) is Truth.NO
    return ctx.constant(value) in _NO


def _is_trial(node: ast.AST, ctx: Context) -> bool:
    """Is this a test that tries what happens? Code that prepares tests seeds or switches something else beside it."""
    if not is_test_file(ctx.module):
        return False
    around = [parent for parent in ctx.ancestors(node) if isinstance(parent, FUNCTIONS)]
    if any(function.name.startswith("test") for function in around):
        return True
    function = ctx.function(node)
    calls = ctx.module.index.of_type(ast.Call)
    seeds = (call for call in calls if _SEED.search(identifier(call.func)))
    switches = (write.node for write in attribute_writes(ctx.module, ("benchmark",)) if write.name == _BENCHMARK)
    return all(ctx.function(beside) is not function for beside in (*seeds, *switches))


def _is_undoing(node: ast.AST, ctx: Context) -> bool:
    """Is this a function for just that: `disable_determinism()`, `unset_deterministic()`?"""
    function = ctx.function(node)
    return function is not None and _UNDOES.search(function.name) is not None


def _was_set(write: Write, writes: list[Write], ctx: Context) -> bool:
    function = ctx.function(write.node)
    return any(
        other.name == write.name
        and other.node.lineno < write.node.lineno
        and ctx.function(other.node) is function
        and ctx.truth(other.value) is Truth.YES
        for other in writes
    )


@check_file("DET405")
def reduced_precision(ctx: Context) -> Iterator[Finding]:
    """Flags that let float32 work run with fewer bits."""
    reduced = {
        trigger.name: ast.literal_eval(trigger.parameters[0].default or "None")
        for trigger in ctx.rule.triggers
        if trigger.name.startswith("torch.backends.")
    }
    for write in attribute_writes(ctx.module, frozenset(name.rpartition(".")[2] for name in reduced)):
        value = ctx.constant(write.value)
        if write.name in reduced and value == reduced[write.name]:
            yield ctx.finding(write.node, setting=f"{write.name.removeprefix('torch.')} = {value!r}")


@check("DET405")
def reduced_matmul_precision(call: Call, ctx: Context) -> Iterator[Finding]:
    """torch.set_float32_matmul_precision below "highest"."""
    precision = ctx.constant(call.argument("precision").value)
    if precision in ("high", "medium"):
        yield ctx.finding(call.node, setting=f"set_float32_matmul_precision({precision!r})")


def _chosen_by_user(node: ast.AST, ctx: Context) -> bool:
    """Does a switch named after seed, determinism or speed decide whether `node` runs, and is not on by itself?"""
    for test, taken in ctx.module.index.branches_around(node):
        if _names_choice(test) and not _asks_to_repeat(test, taken):
            return truth_by_default(test, ctx) is not Truth.of(taken)
    return False


def _names_choice(test: ast.expr) -> bool:
    return any(_CHOICE.search(word) for word in _words(test))


def _asks_to_repeat(test: ast.expr, taken: bool) -> bool:
    """`if seed is not None:`, `if deterministic:`: who gives a seed asks for results that can be repeated."""
    absent = isinstance(test, ast.UnaryOp) or (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is))
    if taken is absent:
        return False
    choices = [word for word in _words(test) if _CHOICE.search(word)]
    plain = not any(isinstance(part, (ast.Compare, ast.Not, ast.Or)) for part in ast.walk(test))
    return all(_SEED.search(word) or (plain and _REPEATABLE.search(word)) for word in choices)


def _words(test: ast.expr) -> Iterator[str]:
    """Yield the names in a condition, and the keys that settings are read by: `cfg.get("cudnn_benchmark", False)`.

    Not what they belong to: `debug_config.deterministic` asks for no debugging.
    """
    owners = [part.value for part in ast.walk(test) if isinstance(part, ast.Attribute)]
    for part in ast.walk(test):
        if isinstance(part, ast.Name) and part not in owners:
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
