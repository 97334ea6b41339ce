"""DET603: what runs at the same time as others is kept in the order in which it finishes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.returned import only_hands_on
from detlint.linter.analysis.values import Kind
from detlint.linter.order.callers import is_given_in_vain
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import Trail
from detlint.linter.order.left_to_callers import is_left_to_callers
from detlint.linter.order.on_request import is_left_open_on_request
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import holds_one, identifier, walk
from detlint.linter.tables.order import order_table

_RUNNING = frozenset({"run_until_complete", "run"})


@check("DET603")
def completion_order(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where results are stored by key, counted, reduced or sorted."""
    tracer = OrderTracer(ctx.module, source=call.node)
    trail = Trail(gathered=True, each_run=True)
    sink = tracer.first(tracer.destination(node, trail) for node in _finished(call, tracer, ctx))
    if sink is None and call.name.endswith(".wait"):
        sink = tracer.in_rounds(call.node, trail)
    if sink is None or is_given_in_vain(sink, ctx) or is_left_to_callers(sink, ctx, trail):
        return
    if not is_left_open_on_request(call.node, ctx):
        yield ctx.finding(call.node, call=f"{call.name}()", sink=sink)


def _finished(call: Call, tracer: OrderTracer, ctx: Context) -> Iterator[ast.expr]:
    """Yield what gives results as they finish."""
    if call.name == "ray.wait":  # what is ready stands in the order in which it was asked for
        if not _waits_for_all(call, ctx):
            yield from _iterations_of_done(call.node, tracer, ctx)
    elif call.name.endswith(".wait"):
        yield from _iterations_of_done(call.node, tracer, ctx)
    elif call.name != "joblib.Parallel":
        yield call.node
    elif ctx.constant(call.argument("return_as").value) == "generator_unordered":
        binding = ctx.binding(call.node)
        pools = ctx.flow(call.node).uses(binding) if binding is not None else (call.node,)
        runs = ((pool, ctx.parent(pool)) for pool in pools)
        yield from (run for pool, run in runs if isinstance(run, ast.Call) and run.func is pool)


def _waits_for_all(call: Call, ctx: Context) -> bool:
    """`ray.wait(futures, num_returns=len(futures))`."""
    number = call.argument("num_returns").value
    if not isinstance(number, ast.Call) or "builtins.len" not in ctx.callees(number):
        return False
    return list(map(ast.dump, number.args)) == [ast.dump(given) for given in call.node.args[:1]]


def _iterations_of_done(call: ast.Call, tracer: OrderTracer, ctx: Context) -> Iterator[ast.expr]:
    """Yield where `done` of `done, pending = wait(futures)` is iterated: as a set it has no order yet."""
    if any(isinstance(given, (ast.List, ast.Set)) and holds_one(given) for given in call.args[:1]):
        return
    statement = _after_waiting(call, ctx)
    function = ctx.function(call)
    if isinstance(statement, ast.Return) and function is not None and only_hands_on(function):
        for given in tracer.callers(function):  # `done, pending = finished(pending)`
            yield from _iterations_of_done(given, tracer, ctx)
    if isinstance(statement, ast.expr) and _takes_done(statement):
        yield statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    done = target.elts[0] if isinstance(target, ast.Tuple) else None
    binding = tracer.binding_of(done) if isinstance(done, ast.Name) else None
    if binding is not None:
        yield from (use for use in ctx.flow(call).uses(binding) if _is_iterated(use, ctx))
    both = tracer.binding_of(target) if isinstance(target, ast.Name) else None
    for use in ctx.flow(call).uses(both) if both is not None else ():  # `waited = wait(futures)`, `waited.done`
        part = ctx.parent(use)
        if isinstance(part, ast.expr) and _takes_done(part):
            yield part


def _takes_done(part: ast.expr) -> bool:
    """`wait(futures).done`, `wait(futures)[0]`."""
    if isinstance(part, ast.Subscript):
        return isinstance(part.slice, ast.Constant) and part.slice.value == 0
    return isinstance(part, ast.Attribute) and part.attr == "done"


def _after_waiting(call: ast.Call, ctx: Context) -> ast.AST | None:
    """Return what stands around `await wait(tasks)`, or around `loop.run_until_complete(wait(tasks))`."""
    waited: ast.expr = ctx.module.index.with_choice(call)
    around = ctx.parent(waited)
    while isinstance(around, ast.Await) or (isinstance(around, ast.Call) and identifier(around.func) in _RUNNING):
        waited = ctx.module.index.with_choice(around)
        around = ctx.parent(waited)
    return around


def _is_iterated(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node
    carrying = order_table().functions["carrying"]
    return isinstance(parent, ast.Call) and not carrying.isdisjoint(ctx.callees(parent))


@check_file("DET603")
def queue_order(ctx: Context) -> Iterator[Finding]:
    """What several workers put into one queue comes out as they finish; silent unless a result is known to go on."""
    calls = ctx.module.index.calls_by_name
    table = order_table().functions
    workers = [
        call for name in _last_words(table["workers"]) for call in calls.get(name, ()) if _is_repeated(call, ctx)
    ]
    filled = {_variable(part, ctx) for call in workers for part in (*ast.walk(call), *_puts(call, ctx))} - {None}
    for call in calls.get("get", ()) if filled else ():
        queue = call.func.value if isinstance(call.func, ast.Attribute) else call
        if _variable(queue, ctx) not in filled or not _is_made_by(queue, table["queues"], ctx):
            continue
        sink = _next_of(call, queue, ctx)
        if sink is not None:
            yield ctx.finding(call, call=f"{ast.unparse(queue)}.get()", sink=sink)


def _puts(worker: ast.Call, ctx: Context) -> Iterator[ast.expr]:
    """Yield the queues of its own file that what a worker runs puts something into: `self.done.put(row)`.

    Not with the number of the row, by which whoever takes it out goes.
    """
    tracer = OrderTracer(ctx.module, source=worker)
    targets = (keyword.value for keyword in worker.keywords if keyword.arg == "target")
    for name in (name for target in targets for name in ctx.resolve(target)):
        owner, function = ctx.module.project.definition(name) or (None, None)
        for call in walk(function) if owner is ctx.module and isinstance(function, FUNCTIONS) else ():
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "put":
                continue
            if not any(tracer.goes_with_number(given, frozenset()) for given in call.args[:1]):
                yield call.func.value


def _variable(node: ast.AST, ctx: Context) -> tuple[str, object] | None:
    """Return what is read: its name, and the scope or the class that it belongs to."""
    if isinstance(node, ast.Name):
        return node.id, ctx.module.index.scope_at(node).lookup(node.id)
    return (ast.unparse(node), ctx.module.index.class_at(node)) if isinstance(node, ast.Attribute) else None


def _is_repeated(call: ast.Call, ctx: Context) -> bool:
    """Is a call made several times, in a loop or a comprehension of its function?"""
    for parent in ctx.ancestors(call):
        if isinstance(parent, FUNCTIONS):
            return False
        if isinstance(parent, (ast.For, ast.While, ast.ListComp)):
            return True
    return False


def _is_made_by(node: ast.expr, makers: frozenset[str], ctx: Context) -> bool:
    """Is a variable a queue: made by one of `makers`, or a parameter that is annotated so?"""
    values = [value for value in ctx.values(node) if value.kind is not Kind.NONE]
    return bool(values) and all(
        bool(makers.intersection(ctx.callees(value.node))) if isinstance(value.node, ast.Call) else value.type in makers
        for value in values
    )


def _next_of(call: ast.Call, queue: ast.expr, ctx: Context) -> str | None:
    """Return what takes over the order of a queue: of one entry alone only whoever asks for the next one."""
    tracer = OrderTracer(ctx.module)
    if isinstance(ctx.parent(call), (ast.Return, ast.Yield, ast.ListComp)):
        return tracer.destination(call)
    return tracer.taken_out(queue, call) if _is_repeated(call, ctx) else None


def _last_words(names: frozenset[str]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in names})
