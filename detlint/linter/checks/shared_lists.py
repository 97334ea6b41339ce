"""DET603: one list that several coroutines, threads or callbacks fill as they finish."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.origins import origins
from detlint.linter.analysis.registry import check_file
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import Trail
from detlint.linter.programs.parallel import Start, callbacks, loop_around, starts
from detlint.linter.randomness.repeatable import why_unrepeatable
from detlint.linter.source.names import BindingKind, parameters
from detlint.linter.source.nodes import identifier, is_own, walk
from detlint.linter.tables.elements import element_table
from detlint.linter.tables.order import order_table


@check_file("DET603")
def shared_list_order(ctx: Context) -> Iterator[Finding]:
    """Silent unless each comes to the list after some work, and its order is known to go on."""
    seen: set[tuple[ast.AST, str]] = set()
    for start in starts(ctx):
        for fill in _fills(start.function):
            container = _container(fill, start, ctx)
            if container is None or (start.function, ast.unparse(container)) in seen:
                continue
            sink = _sink(container, start, ctx) if _comes_when_it_ends(fill, start, ctx) else None
            if sink is not None:
                seen.add((start.function, ast.unparse(container)))
                name = getattr(start.function, "name", "lambda")
                yield ctx.finding(fill, call=f"{name}(), run beside others of its kind,", sink=sink)


@check_file("DET603")
def callback_order(ctx: Context) -> Iterator[Finding]:
    """`pool.apply_async(work, callback=found.append)`."""
    for call, target in callbacks(ctx):
        if isinstance(target, ast.Attribute) and target.attr in _filling() and _lasts(target.value, call, ctx):
            sink = OrderTracer(ctx.module).collected(target.value, call, Trail())
            if sink is not None:
                yield ctx.finding(target, call=f"{ast.unparse(call.func)}()", sink=sink)


def _filling() -> frozenset[str]:
    methods = order_table().methods
    return methods["appending"] | methods["extending"]


def _fills(function: ast.AST) -> Iterator[ast.Call]:
    """Yield `found.append(value)` and its like in a function."""
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _filling():
            yield node


def _container(fill: ast.Call, start: Start, ctx: Context) -> ast.expr | None:
    """Return the one list that is filled, as whoever starts the function sees it; None where each has its own."""
    assert isinstance(fill.func, ast.Attribute)
    container = fill.func.value
    if is_own(container):
        return container if is_own(start.written.func) else None  # other objects have lists of their own
    if not isinstance(container, ast.Name):
        return None
    scope = ctx.module.index.scope_at(container).lookup(container.id)
    if scope is None:
        return None
    if scope.node is not start.function:
        inside = start.function in ctx.ancestors(scope.node)
        return container if not inside and _lasts(container, start.call, ctx) else None
    if any(binding.kind is not BindingKind.PARAMETER for binding in scope.bindings[container.id]):
        return None
    given = start.argument(container.id)
    return given if isinstance(given, ast.Name) and _lasts(given, start.call, ctx) else None


def _lasts(container: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """Is a variable made before the loop that a call stands in, and not in each of its rounds?"""
    loop = loop_around(call, ctx)
    scope = ctx.module.index.scope_at(container).lookup(identifier(container))
    bindings = scope.bindings[identifier(container)] if scope is not None else ()
    return all(loop is None or loop not in ctx.ancestors(binding.node) for binding in bindings)


def _comes_when_it_ends(fill: ast.Call, start: Start, ctx: Context) -> bool:
    """Does the order of the list depend on how long something takes, and are its items those of the next run?"""
    if any(
        isinstance(value, ast.Tuple) and len(value.elts) > 1 and _names_number(value.elts[0]) for value in fill.args
    ):
        return False
    behind = [origin for value in fill.args for origin in origins(ctx.module, value, ())]
    if all(isinstance(origin.node, ast.Constant) for origin in behind):
        return False  # all of them put in the same, to be counted
    if any(map(why_unrepeatable, behind)):
        return False  # times that were taken
    if start.is_callback:
        own = {parameter.arg for parameter, _ in parameters(start.function.args)}
        return any(isinstance(origin.node, ast.Name) and origin.node.id in own for origin in behind)
    flow = ctx.flow(fill)
    waits = isinstance(start.function, ast.AsyncFunctionDef)
    return any(_takes_time(node, waits) and flow.path(node, fill) for node in walk(start.function) if node is not fill)


def _names_number(place: ast.expr) -> bool:
    """`(self.index, answer)`: whoever reads the list goes by the number."""
    return identifier(place) == "i" or element_table().names_numbers(identifier(place))


def _takes_time(node: ast.AST, waits: bool) -> bool:
    """`await model(text)` in a coroutine, any other call in a thread."""
    call = node.value if waits and isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call) or (waits and call is node):
        return False
    return identifier(call.func) not in order_table().methods["idle"]


def _sink(container: ast.expr, start: Start, ctx: Context) -> str | None:
    tracer = OrderTracer(ctx.module)
    found = tracer.collected(container, start.call, Trail())
    if found is not None or not start.is_callback or not isinstance(container, ast.Name):
        return found
    inside = [node for node in walk(start.function) if isinstance(node, ast.Name) and node.id == container.id]
    return tracer.first(_result_made_of(use, ctx) or tracer.destination(use) for use in inside)


def _result_made_of(use: ast.Name, ctx: Context) -> str | None:
    """`if all_done(): whole.set_result(found)` in the callback that fills the list."""
    call = ctx.parent(use)
    return "set_result()" if isinstance(call, ast.Call) and identifier(call.func) == "set_result" else None
