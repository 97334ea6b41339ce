"""What a file has run beside other things of its kind: coroutines, threads, and callbacks of what has ended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.program import calls_named
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, LOOPS, FunctionNode
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.order import order_table

_WAITING = frozenset({"join", "result", "get", "wait"})


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """`call` has a function run beside others of its kind, or when something ends (then `is_callback`).

    `written` is the call of the function that it stands for: `work(done)` of `Thread(target=work, args=(done,))`.
    """

    call: ast.Call
    function: FunctionNode | ast.Lambda
    written: ast.Call
    is_callback: bool = False

    def argument(self, parameter: str) -> ast.expr | None:
        """Return what the function gets for a parameter, where that is written out."""
        if isinstance(self.function, ast.Lambda):
            return None
        method = isinstance(self.written.func, ast.Attribute)
        return argument_of(self.function, parameter, self.written, skip_self=method)


def starts(ctx: Context) -> Iterator[Start]:
    """Yield the calls of a file through which something of it runs several times at once."""
    yield from _coroutines(ctx)
    yield from _threads(ctx)
    yield from _submitted(ctx)
    for call, target in callbacks(ctx):
        yield from _starts_of(target, None, call, ctx)


def loop_around(call: ast.Call, ctx: Context) -> ast.AST | None:
    """Return the innermost loop or comprehension of its function in which a call stands."""
    for parent in ctx.ancestors(call):
        if isinstance(parent, (*FUNCTIONS, ast.Lambda)):
            return None
        if isinstance(parent, (*LOOPS, *COMPREHENSIONS)):
            return parent
    return None


def _coroutines(ctx: Context) -> Iterator[Start]:
    """`[asyncio.create_task(work(queue, found)) for _ in range(n)]`."""
    for function in ctx.module.index.of_type(ast.AsyncFunctionDef):
        qualified = ctx.module.qualified(function)
        for call in calls_named(ctx.module, (function.name,)):
            own = function in ctx.ancestors(call)
            if not own and qualified in ctx.callees(call) and _run_together(call, ctx) and _starts_some(call, ctx):
                yield Start(call, function, call)


def _starts_some(call: ast.Call, ctx: Context) -> bool:
    """Does the function that makes a coroutine start any at all? Else they are awaited in turn."""
    around = ctx.function(call) or ctx.module.tree
    calls = ctx.module.index.calls_by_name
    started = (start for name in sorted(order_table().methods["starting"]) for start in calls.get(name, ()))
    return any(around in ctx.ancestors(start) for start in started)


def _threads(ctx: Context) -> Iterator[Start]:
    """`Thread(target=work, args=(part, found))`."""
    for call in _calls_of("threads", ctx):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        passed = given.get("args")
        arguments = passed.elts if isinstance(passed, (ast.Tuple, ast.List)) else []
        if "target" in given and _run_together(call, ctx):
            yield from _starts_of(given["target"], arguments, call, ctx)


def _submitted(ctx: Context) -> Iterator[Start]:
    """`pool.submit(work, part, found)`, `pool.map(work, parts)`."""
    for call in _calls_of("submitting", ctx):
        maps = identifier(call.func) == "map"
        if call.args and not _has_one_worker(call, ctx) and (maps or _run_together(call, ctx)):
            yield from _starts_of(call.args[0], [] if maps else call.args[1:], call, ctx)


def _has_one_worker(call: ast.Call, ctx: Context) -> bool:
    """`ThreadPoolExecutor(max_workers=1)`."""
    pool = call.func.value if isinstance(call.func, ast.Attribute) else call
    made = [value.node for value in ctx.values(pool)]
    sizes = [
        size
        for node in made
        if isinstance(node, ast.Call)
        for size in (*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "max_workers"))
    ]
    return any(ctx.constant(size) == 1 for size in sizes)


def callbacks(ctx: Context) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield `future.add_done_callback(keep)` and `pool.apply_async(work, callback=keep)`, each with `keep`."""
    for call in ctx.module.index.calls_by_name.get("add_done_callback", ()):
        if call.args and _run_together(call, ctx):
            yield call, call.args[0]
    for call in _calls_of("notifying", ctx):
        given = [keyword.value for keyword in call.keywords if keyword.arg == "callback"] or call.args[3:4]
        if given and _run_together(call, ctx):
            yield call, given[0]


def _starts_of(target: ast.expr, given: list[ast.expr] | None, call: ast.Call, ctx: Context) -> Iterator[Start]:
    """Yield the start of what `target` names in this file; without anything `given` it is a callback."""
    written = ast.Call(target, given or [], [])
    if isinstance(target, ast.Lambda):
        yield Start(call, target, written, given is None)
        return
    for name in ctx.resolve(target):
        definition = ctx.module.project.definition(name)
        if definition is not None and definition[0] is ctx.module and isinstance(definition[1], FUNCTIONS):
            yield Start(call, definition[1], written, given is None)


def _calls_of(key: str, ctx: Context) -> Iterator[ast.Call]:
    names = order_table().functions[key]
    for call in calls_named(ctx.module, {name.rpartition(".")[2] for name in names}):
        if not names.isdisjoint(ctx.callees(call)):
            yield call


def _run_together(call: ast.Call, ctx: Context) -> bool:
    """Does a loop start something several times, without waiting each time until it has ended?"""
    loop = loop_around(call, ctx)
    parent = ctx.parent(call)
    at_once = isinstance(parent, ast.Await) or (isinstance(parent, ast.Attribute) and parent.attr in _WAITING)
    return loop is not None and not at_once and not _waits_in_turn(call, loop, ctx)


def _waits_in_turn(call: ast.Call, loop: ast.AST, ctx: Context) -> bool:
    """`thread.join()` or `await task` in the loop that starts it."""
    statement = ctx.statement(call)
    started = {identifier(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()
    waited = (_waited_for(node) for node in ast.walk(loop) if loop in ctx.ancestors(call))
    return any(name in started for name in waited if name)


def _waited_for(node: ast.AST) -> str:
    if isinstance(node, ast.Await):
        return identifier(node.value)
    waits = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING
    return identifier(node.func.value) if waits and isinstance(node.func, ast.Attribute) else ""  # type: ignore[attr-defined]
