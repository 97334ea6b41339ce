"""Is code there to tell how fast something runs? What it computes on the way is thrown away."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.programs.trial_runs import is_unused
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import decorating, identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

BENCHMARK = re.compile(r"(^|_)(bench|benchmark|profile)(_|$)")
_OF_BENCHMARKS = re.compile(r"^(bench|benchmark|benchmarks|benchmarking|profiling)$")
CLOCKS = frozenset({"perf_counter", "perf_counter_ns", "synchronize", "Event", "Timer", "profile"})
# Calls what it is given over and over, and gives the time that a call takes; and what makes a table of such times.
TIMES_CALLS = "do_bench"
_READS_TIME = CLOCKS | {"time", "time_ns", "process_time", "monotonic"}
_READS_MEMORY = frozenset({"max_memory_allocated", "max_memory_reserved", "memory_stats"})
_KEEPS = frozenset({"save", "save_checkpoint", "save_model", "save_pretrained"})
_REPORTED = "triton.testing.perf_report"


def is_only_timed(call: ast.Call, ctx: Context) -> bool:
    """Return whether a call stands in a benchmark that only takes its time, or makes what `do_bench` calls there."""
    benchmarks = (node for node in ctx.ancestors(call) if isinstance(node, FUNCTIONS) and _is_benchmark(node, ctx))
    for function in benchmarks:
        called = {identifier(part.func) for part in walk(function) if isinstance(part, ast.Call)}
        if TIMES_CALLS in called or (not CLOCKS.isdisjoint(called) and _is_dropped(call, ctx)):
            return True
    return False


def _is_dropped(call: ast.Call, ctx: Context) -> bool:
    """Does nobody read what comes out? What `out.index_add_(0, rows, x)` gives is in `out` too."""
    return is_unused(ctx.module, call) and not identifier(call.func).endswith("_")


def _is_benchmark(function: FunctionNode, ctx: Context) -> bool:
    decorators = (name for part in function.decorator_list for name in ctx.resolve(decorating(part)))
    return BENCHMARK.search(function.name) is not None or _REPORTED in decorators


def is_speed_test(ctx: Context) -> bool:
    """Is the file a program among benchmarks, or named like one, that reads a clock and makes no optimizer's step?"""
    called = ctx.module.index.calls_by_name
    return _is_among_benchmarks(ctx) and not _READS_TIME.isdisjoint(called) and "step" not in called


def weighs_training(ctx: Context) -> bool:
    """Is the file such a program that trains for the time and the memory that takes, and keeps no model?"""
    called = ctx.module.index.calls_by_name
    reads = not _READS_TIME.isdisjoint(called) and not _READS_MEMORY.isdisjoint(called)
    return reads and _is_among_benchmarks(ctx) and _KEEPS.isdisjoint(called)


def _is_among_benchmarks(ctx: Context) -> bool:
    path = ctx.module.source.path
    named = BENCHMARK.search(path.stem) is not None or _OF_BENCHMARKS.search(path.parent.name) is not None
    return named and ctx.program is not None


def measures(call: ast.Call, ctx: Context) -> bool:
    """`profile_pair(left, right)`: is that a function of the project, in a file that reads a clock?"""
    if not BENCHMARK.search(identifier(call.func)):
        return False
    found = map(ctx.module.project.definition, ctx.callees(call))
    return any(made is not None and not CLOCKS.isdisjoint(made[0].index.calls_by_name) for made in found)
