"""What reads a copy on the CPU that a device may still be filling? Follows it through variables and containers."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.values import Kind
from detlint.linter.memory.array_views import ARRAYS, SEEN_AS, gives_back, is_given_back
from detlint.linter.memory.host_copies import VIEWS, is_of_cpu
from detlint.linter.memory.looped import COLLECTING, gives_entries, looped
from detlint.linter.memory.waits import WAITING_METHODS, waits_in
from detlint.linter.source.names import Binding
from detlint.linter.source.nodes import identifier, is_own
from detlint.linter.tables.memory import memory_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.flow import Flow

_TO_DEVICE = frozenset({"to", "cuda", "record_stream", "copy_"})
_READING_BUILTINS = frozenset({"float", "int", "bool", "print", "list", "tuple", "sum", "max", "min", "sorted", "str"})
_READING_LIBRARIES = ("torch.", "numpy.", "pickle.", "joblib.", "safetensors.")
_UNKNOWN = ("torch.Tensor.", "torch.nn.Module.")  # what these run, a class that derives from them says
_ASKING = frozenset({"builtins.len", "builtins.isinstance", "builtins.type", "builtins.id"})  # of a form only
_STREAMS = frozenset({"Event", "Stream", "current_stream", "synchronize", "wait", "wait_event", "wait_stream"})
_RECORDED = ("record", "record_event", "record_stream")  # on a stream, for somebody else to wait for
_HELD = frozenset({"items", "values", "get", "pop"})  # of what holds copies
ASIDE = ("offload", "unload", "onload", "sleep", "swap", "free", "drop", "release", "evict", "exit")
_PIPELINE = ("async", "enqueue", "prefetch", "stage", "forward", "backward", "save", "load", "send", "begin", "start")
_MOST_CALLS = 2
_FILLING = frozenset({"append", "extend", "insert"})
_KEEPING = ("save_for_backward", "P2POp")  # functions of torch that keep a tensor for later


@dataclass(frozen=True, slots=True)
class Running:
    """A copy that runs: since `call`, or since the beginning of a function that is given it (then None).

    `as_array`: it is looked at as an array of the CPU, `host.numpy()`, by whoever computes with that. `renewed`: where
    the buffer that it fills gets its name; after that the name means another buffer. `listed`: it is one of several
    copies in a list. `place`: where it stands in the tuple that a function returns.
    """

    call: ast.Call | None
    flow: Flow
    calls: int = 0
    seen: set[ast.AST] = field(default_factory=set, compare=False)
    as_array: bool = False
    renewed: tuple[ast.AST, ...] = ()
    listed: bool = False
    place: int | None = None

    def reaches(self, goal: ast.AST, waits: list[ast.AST]) -> bool:
        return goal in self.flow and self.flow.path(self.call, goal, avoiding=[*waits, *self.renewed])


def read(node: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """Return the expression that reads the value of `node`, or of what it holds, on the CPU, or None."""
    if node in copy.seen:
        return None
    copy.seen.add(node)
    parent = ctx.parent(node)
    loop = looped(node, ctx)
    if loop is not None:
        return _read_of_names(*loop, copy, ctx)
    binding = ctx.binding(node)
    if binding is not None:
        return read_of_name(binding.name, copy, ctx, (binding,))
    if isinstance(parent, ast.Attribute):
        return _read_of_attribute(parent, copy, ctx)
    if isinstance(parent, ast.Assign) and parent.value is node:
        return _first(_read_of_target(target, copy, ctx) for target in parent.targets)
    if isinstance(parent, ast.AnnAssign) and parent.value is node:
        return read_of_place(parent.target, copy, ctx)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return read(parent, copy, ctx) if isinstance(parent.ctx, ast.Load) else None
    if isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        listed = isinstance(parent, (ast.ListComp, ast.GeneratorExp))
        returned = isinstance(parent, ast.Tuple) and isinstance(ctx.parent(parent), ast.Return)
        place = parent.elts.index(node) if returned and isinstance(parent, ast.Tuple) else None
        return read(parent, replace(copy, listed=listed, place=place), ctx)
    if isinstance(parent, ast.keyword) and isinstance(call := ctx.parent(parent), ast.Call):
        return _read_of_argument(node, call, copy, ctx)
    if isinstance(parent, ast.Call):
        return _read_of_argument(node, parent, copy, ctx)
    if isinstance(parent, (ast.Return, ast.Yield)):
        return _read_of_array_given(node, copy, ctx) if copy.as_array else _read_of_result(node, copy, ctx)
    if isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops):
        return None
    if isinstance(parent, (ast.BinOp, ast.AugAssign, ast.Compare, ast.UnaryOp, ast.BoolOp, ast.FormattedValue)):
        return node
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        return read(parent, copy, ctx)
    return node if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)) and parent.test is node else None


def _first(found: Iterable[ast.expr | None]) -> ast.expr | None:
    return next((each for each in found if each is not None), None)


def _read_of_names(loop: ast.AST, target: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """`[host.numpy() for host in hosts]`."""
    if not isinstance(target, ast.Name):
        return None
    bound = [each for each in ctx.module.index.bindings_of(target) if each.node is target]
    if isinstance(loop, ast.For):
        return read_of_name(target.id, copy, ctx, tuple(bound))
    whole = ctx.parent(loop) or loop
    uses = [node for node in ast.walk(whole) if isinstance(node, ast.Name) and node.id == target.id]
    return _read_of_uses(target.id, [use for use in uses if use is not target], copy, ctx)


def _read_of_target(target: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """`first, second = [each.to("cpu") for each in pair]`; `whole[start:end] = host` reads it to fill a tensor."""
    if isinstance(target, (ast.Tuple, ast.List)):
        if copy.place is not None and copy.place < len(target.elts):
            return _read_of_target(target.elts[copy.place], replace(copy, place=None), ctx)
        if not copy.listed:
            return None  # there may be more in it than copies
        single = replace(copy, listed=False)
        return _first(_read_of_target(part, single, ctx) for part in target.elts)
    if isinstance(target, ast.Subscript) and _is_filled_at_once(target.value, ctx):
        return target
    return read_of_place(target, copy, ctx)


def _is_filled_at_once(container: ast.expr, ctx: Context) -> bool:
    """Is this memory of the CPU, and no list or dict that keeps what it is given?"""
    return {value.kind for value in ctx.values(container)} - {Kind.NONE} == {Kind.ARRAY} or is_of_cpu(container, ctx)


def read_of_place(place: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """Return what reads a variable, an attribute of the object, or what holds it: `hosts["a"] = …`."""
    if isinstance(place, ast.Subscript) and isinstance(place.value, ast.Name):
        uses = (use for binding in ctx.module.definitions(place.value) for use in copy.flow.uses(binding))
        return _read_of_uses(place.value.id, [use for use in uses if _may_take(use, place, ctx)], copy, ctx)
    while isinstance(place, ast.Subscript):
        place = place.value
    if isinstance(place, ast.Name):
        bound = tuple(each for each in ctx.module.index.bindings_of(place) if each.node is place)
        return read_of_name(place.id, copy, ctx, bound or ctx.module.definitions(place))
    return _read_of_own(place, copy, ctx) if isinstance(place, ast.Attribute) and is_own(place) else None


def _read_of_list(filled: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """`if hosts:` and `while not hosts:` ask a list whether there is anything in it, and none of what is there."""
    if not isinstance(filled, ast.Name):
        return read_of_place(filled, copy, ctx)
    uses = (use for binding in ctx.module.definitions(filled) for use in copy.flow.uses(binding))
    return _read_of_uses(filled.id, [use for use in uses if not _asks_whether(use, ctx)], copy, ctx)


def _asks_whether(use: ast.expr, ctx: Context) -> bool:
    user = ctx.parent(use)
    tests = isinstance(user, (ast.If, ast.IfExp, ast.While, ast.Assert)) and user.test is use
    return tests or isinstance(user, (ast.Compare, ast.BoolOp, ast.UnaryOp))


def _may_take(use: ast.expr, entry: ast.Subscript, ctx: Context) -> bool:
    """Can a use of `hosts` be one of `hosts["a"]`: not `hosts["b"]`, and not `"a" in hosts`."""
    around = ctx.parent(use)
    if not isinstance(around, ast.Subscript):
        return not _asks_whether(use, ctx)
    keys = (around.slice, entry.slice)
    return not all(isinstance(key, ast.Constant) for key in keys) or ast.dump(keys[0]) == ast.dump(keys[1])


def _read_of_own(place: ast.Attribute, copy: Running, ctx: Context) -> ast.expr | None:
    """`self.host` in the same method, or in others of a class that never waits."""
    index = ctx.module.index
    owner, function = index.class_at(place), index.function_at(place)
    loads = [
        use
        for use in index.names_used.get(place.attr, ())
        if isinstance(use, ast.Attribute)
        and isinstance(use.ctx, ast.Load)
        and is_own(use)
        and index.class_at(use) is owner
    ]
    text = ast.unparse(place)
    found = _read_of_uses(text, loads, copy, ctx)
    if found is not None or not outlives(copy, ctx):
        return found
    others = {id(reader): reader for reader in map(index.function_at, loads) if reader not in (function, None)}
    for reader in others.values():
        inside = [use for use in loads if index.function_at(use) is reader]
        found = _read_of_uses(text, inside, Running(None, ctx.flow(inside[0])), ctx)
        if found is not None:
            return found
    return None


def outlives(copy: Running, ctx: Context) -> bool:
    """Return whether a copy goes on when its function has ended, for all that the file says."""
    return _goes_on(copy, ctx) and not _uses_streams(ctx)


def _goes_on(copy: Running, ctx: Context) -> bool:
    """Does a function end without having waited for a copy, and is it called like none that leaves that to others?"""
    function = ctx.module.index.function_at(copy.call) if copy.call is not None else None
    if function is None or any(word in function.name.lower() for word in (*ASIDE, *_PIPELINE)):
        return False
    return not any(copy.flow.path(copy.call, wait) for wait in waits_in(copy.flow, "", ctx))


def _uses_streams(ctx: Context) -> bool:
    """Does a file make streams or events, or wait for them? A `synchronize()` of its own may be about processes."""
    called = (call for name in _STREAMS for call in ctx.module.index.calls_by_name.get(name, ()))
    return any(not _is_about_others(call, ctx) for call in called)


def _is_about_others(call: ast.Call, ctx: Context) -> bool:
    """`synchronize()`, a function of the project that calls nothing that waits for a device: `barrier()`."""
    functions = [function for _, function in functions_called(ctx.inference, call)]
    return bool(functions) and not any(
        isinstance(part, ast.Call) and identifier(part.func) in _STREAMS | WAITING_METHODS
        for function in functions
        for part in ast.walk(function)
    )


def _read_of_result(node: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """What a function returns, where a caller reads it: the result itself if that stands in another file."""
    if isinstance(ctx.parent(node), ast.Yield) or copy.call is None or not _goes_on(copy, ctx):
        return None
    function = ctx.module.index.function_at(copy.call)
    assert function is not None
    qualified = ctx.module.qualified(function)
    for site in calls_of(function, ctx) if copy.calls < _MOST_CALLS else ():
        where, call = site if site is not None else (ctx, copy.call)
        if qualified in where.callees(call):
            running = Running(call, where.flow(call), copy.calls + 1, listed=copy.listed, place=copy.place)
            found = read(call, running, where)
            if found is not None:
                return found if where.module is ctx.module else node
    return None


def _is_given_away(container: ast.expr, copy: Running, ctx: Context) -> bool:
    """`rows.extend(host.numpy())`, where a caller gives `rows` and nothing waits: it gets arrays to be read."""
    bindings = ctx.module.definitions(container) if isinstance(container, ast.Name) else ()
    if not bindings or not all(isinstance(binding.node, ast.arg) for binding in bindings):
        return False
    return copy.call is not None and not any(copy.flow.path(copy.call, wait) for wait in waits_in(copy.flow, "", ctx))


def _read_of_array_given(node: ast.expr, copy: Running, ctx: Context) -> ast.expr | None:
    """An array that a function gives is there to be read, unless it leaves an event, or who calls it uses streams."""
    function = ctx.function(node)
    if function is None or copy.call is None:
        return node
    recorded = (call for name in _RECORDED for call in ctx.module.index.calls_by_name.get(name, ()))
    if any(ctx.function(call) is function for call in recorded):
        return None
    sites = [site for site in calls_of(function, ctx) if site is not None] if copy.calls < _MOST_CALLS else []
    if any(where.module is not ctx.module and _uses_streams(where) for where, _ in sites):
        return None
    runs = [
        (where, call, Running(call, where.flow(call), copy.calls + 1, as_array=True, place=copy.place))
        for where, call in sites
    ]
    return node if not runs or any(read(call, run, where) is not None for where, call, run in runs) else None


def _read_of_attribute(attribute: ast.Attribute, copy: Running, ctx: Context) -> ast.expr | None:
    call = ctx.parent(attribute)
    called = isinstance(call, ast.Call) and call.func is attribute
    if attribute.attr in memory_table().methods["form"] or (called and attribute.attr in _TO_DEVICE):
        return None
    if attribute.attr in ARRAYS and called and isinstance(call, ast.Call):
        return read(call, replace(copy, as_array=True), ctx)
    if attribute.attr in _HELD and called and isinstance(call, ast.Call):
        return read(call, copy, ctx)
    if attribute.attr in VIEWS:
        return read(call if called and isinstance(call, ast.Call) else attribute, copy, ctx)
    return attribute if called and attribute.attr not in _FILLING else None


def _read_of_argument(node: ast.expr, call: ast.Call, copy: Running, ctx: Context) -> ast.expr | None:
    names = ctx.callees(call)
    if any(name.endswith(_KEEPING) or name.startswith("torch.optim.") for name in names):
        return None
    if names and memory_table().functions["like"].issuperset(names):
        return None
    if SEEN_AS.intersection(names):
        return read(call, replace(copy, as_array=True), ctx)
    if any(name.startswith(_READING_LIBRARIES) and not name.startswith(_UNKNOWN) for name in names):
        return call
    if (isinstance(node, ast.GeneratorExp) or gives_entries(node)) and COLLECTING.intersection(names):
        return read(call, copy, ctx)
    if any(name.removeprefix("builtins.") in _READING_BUILTINS for name in names):
        return call
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _FILLING:
        found = _read_of_list(function.value, replace(copy, listed=True), ctx)
        return found or (call if copy.as_array and _is_given_away(function.value, copy, ctx) else None)
    if isinstance(function, ast.Attribute) and function.attr == "copy_":
        return call if is_of_cpu(function.value, ctx) else None
    if copy.as_array and not isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
        return None if _ASKING.intersection(names) else call
    if copy.call is not None and _is_read_inside(node, call, ctx):
        return call
    if copy.call is not None and is_given_back(node, call, ctx):
        return read(call, replace(copy, as_array=True), ctx)
    return None


def _is_read_inside(node: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """`scores(host)` of a function of the project that reads what it is given."""
    for module, function in functions_called(ctx.inference, call):
        scope = module.index.scopes[function]
        parameter = parameter_given(function, call, node, skip_self=isinstance(call.func, ast.Attribute))
        if parameter is None:
            continue
        inside = ctx.elsewhere(module)
        bindings = tuple(each for each in scope.bindings[parameter] if isinstance(each.node, ast.arg))
        found = read_of_name(parameter, Running(None, module.flow(scope)), inside, bindings)
        if found is not None and not gives_back(found, parameter, inside):
            return True
    return False


def read_of_name(name: str, copy: Running, ctx: Context, bindings: tuple[Binding, ...]) -> ast.expr | None:
    uses = (use for binding in bindings for use in copy.flow.uses(binding))
    return _read_of_uses(name, uses, copy, ctx)


def _read_of_uses(text: str, uses: Iterable[ast.expr], copy: Running, ctx: Context) -> ast.expr | None:
    waits: list[ast.AST] = []
    for node in waits_in(copy.flow, text, ctx):
        waits += [node, *_conditions_of(node, copy, ctx)]
    for use in uses:
        found = read(use, copy, ctx) if copy.reaches(use, waits) else None
        # The arguments of the reading call may themselves wait: torch.cat((host, other.cpu())).
        if found is not None and (found not in copy.flow or copy.reaches(found, waits)):
            return found
    return None


def _conditions_of(wait: ast.Call, copy: Running, ctx: Context) -> list[ast.AST]:
    """`if device.type == "cuda": torch.cuda.synchronize()`: where it does not wait, there is nothing to wait for."""
    around = set(ctx.ancestors(copy.call)) if copy.call is not None else set()
    branches = [parent for parent in ctx.ancestors(wait) if isinstance(parent, ast.If) and parent not in around]
    return [*branches] if identifier(wait.func) == "synchronize" else []
