"""Environment variables set too late (DET406), or not at all where cuBLAS needs one (DET403)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.devices import may_move_to_cuda, moves_to_cuda, uses_cuda
from detlint.linter.programs.environment import EnvironmentWrite, environment_writes, is_put_back
from detlint.linter.randomness.seeding import seeding_of
from detlint.linter.source.nodes import identifier, walk

_HASH_SEED = "PYTHONHASHSEED"
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_BEGINS = frozenset({"torch.cuda.init", "torch.cuda.synchronize"})
_COMPUTING = ("backward", "model", "net", "network")
_STEPS = 2  # callers of callers
_WORKSPACES = (":4096:8", ":16:8")
_LAST_WITH_WORKSPACE = (2, 9)
# What starts another interpreter, which does read its environment.
_STARTS_PROCESS = ("subprocess.", "os.exec", "os.spawn", "os.posix_spawn", "os.system", "os.popen", "pexpect.", "sh.")
_SPAWNS = ("multiprocessing.", "torch.multiprocessing.", "concurrent.futures.ProcessPoolExecutor", "joblib.", "ray.")


@check_file("DET406")
def late_environment(ctx: Context) -> Iterator[Finding]:
    """Silent where a child process gets the variable, and where it is put back as it was."""
    for write in environment_writes(ctx.module, ctx.constant):
        if is_put_back(write, ctx.module, ctx.constant):
            continue
        if write.variable == _HASH_SEED and not _reaches_child(write, ctx):
            yield ctx.finding(write.node, name=_HASH_SEED, when="while the interpreter runs")
        elif write.variable == _WORKSPACE and _after_cuda(write.node, ctx):
            yield ctx.finding(write.node, name=_WORKSPACE, when="after CUDA work began")


def _reaches_child(write: EnvironmentWrite, ctx: Context) -> bool:
    """Does the function (or the top level of the file, all of it) start a process that reads the variable?

    Between `yield`s of a context manager any process may be started.
    """
    function = ctx.function(write.node)
    if function is not None and any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in walk(function)):
        return True
    for call in ctx.module.index.of_type(ast.Call):
        if function is not None and function is not ctx.function(call):
            continue
        if any(name.startswith((*_STARTS_PROCESS, *_SPAWNS)) for name in ctx.callees(call)):
            return True
    return False


def _after_cuda(node: ast.stmt | ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """Something was moved to CUDA before, here or by all callers; by a variable's device where a model ran as well."""
    done = [each for call in _calls_before(node, ctx) for each in ((call, ctx), *_calls_inside(call, ctx))]
    if any(moves_to_cuda(call) or not _BEGINS.isdisjoint(where.callees(call)) for call, where in done):
        return True
    if any(may_move_to_cuda(call, where) for call, where in done) and any(_computes(*each) for each in done):
        return True
    function = ctx.function(node)
    sites = list(calls_of(function, ctx)) if function is not None and steps else []
    return bool(sites) and all(site is not None and _after_cuda(site[1], site[0], steps - 1) for site in sites)


def _calls_before(node: ast.stmt | ast.expr, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that the function around a place has made when it comes there."""
    flow, function = ctx.flow(node), ctx.function(node)
    for call in ctx.module.index.of_type(ast.Call):
        earlier = (call.lineno, call.col_offset) < (node.lineno, node.col_offset)
        if earlier and ctx.function(call) is function and flow.path(call, node):
            yield call


def _calls_inside(call: ast.Call, ctx: Context) -> Iterator[tuple[ast.Call, Context]]:
    """Yield the calls that the project's functions make which `call` may run."""
    for module, function in functions_called(ctx.inference, call):
        where = ctx.elsewhere(module)
        yield from ((part, where) for part in walk(function) if isinstance(part, ast.Call))


def _computes(call: ast.Call, ctx: Context) -> bool:
    """`model(x)`, `loss.backward()`."""
    model = any(value.kind is Kind.MODULE for value in ctx.values(call.func))
    return model or identifier(call.func) in _COMPUTING


@check("DET403")
def missing_cublas_workspace(call: Call, ctx: Context) -> Iterator[Finding]:
    """Speaks about programs that use CUDA, and files that set a wrong value, for the torch releases that need one."""
    mode = ctx.constant(call.argument(call.trigger.parameters[0].name).value)
    if mode not in (True, 2, "error") or not _needs_workspace(ctx.config.torch_version):
        return
    modules = ctx.program.modules if ctx.program is not None else (ctx.module,)
    values = [
        ctx.constant(write.value)
        for module in modules
        for write in environment_writes(module, ctx.constant)
        if write.variable == _WORKSPACE
    ]
    wrong = next((value for value in values if isinstance(value, str) and value not in _WORKSPACES), None)
    if wrong is not None:
        yield ctx.finding(call.node, call=call.name, problem=f"{wrong!r} is no value that cuBLAS takes")
    elif not values and ctx.program is not None and _needs_it(call.node, ctx.program, ctx):
        yield ctx.finding(call.node, call=call.name, problem="nothing in this program sets it")


def _needs_it(request: ast.Call, program: Program, ctx: Context) -> bool:
    """Does a program that uses CUDA make the request, and none that may be set up by a helper out of sight?"""
    if not uses_cuda(ctx) or not program.runs(ctx.module, request):
        return False
    return not any(seed.seeder is None or seed.seeder.deterministic for seed in seeding_of(program).seeds)


def _needs_workspace(version: str | None) -> bool:
    return version is not None and tuple(int(part) for part in version.split(".")[:2]) <= _LAST_WITH_WORKSPACE
