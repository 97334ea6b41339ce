"""DET601, DET602: an order that nothing fixes reaches data."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from detlint.findings import Finding
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.registry import check, check_file
from detlint.linter.analysis.repairs import Repair, replace, unsafe, wrap
from detlint.linter.analysis.testcode import is_unit_test
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.order.callers import is_given_in_vain
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.folders import is_just_made
from detlint.linter.order.form import CHECKSUM, CHOICE, DRAWS, NUMBERING, PAIRING, SUM, WRITING, Entered, Form, Trail
from detlint.linter.order.left_to_callers import is_left_to_callers
from detlint.linter.order.on_request import is_left_open_on_request
from detlint.linter.order.picks import is_for_an_error, takes_the_only_one
from detlint.linter.order.sets import has_fixed_order, is_entry, is_set, makes_set
from detlint.linter.order.taken_up import is_taken_up
from detlint.linter.order.takers import is_taken_as_set
from detlint.linter.order.ties import leaves_ties
from detlint.linter.programs.glob_patterns import leaves_ending_open, names_one_path
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, receiver_of, unless_none, walk
from detlint.linter.tables.order import order_table

_THROUGH_ALL = "pathlib.Path.rglob"
_WALKS = ("os.walk", "os.fwalk", "pathlib.Path.walk")
_UNORDERED = (Kind.TENSOR, Kind.ARRAY, Kind.MODULE, Kind.INSTANCE)  # what sorted() cannot compare
_PATH = "pathlib.Path"
_LISTS = ("os.listdir", "glob.glob")
_MAX_STEPS = 2
_TAKEN_OVER = (NUMBERING, CHOICE, PAIRING, SUM, CHECKSUM, WRITING, DRAWS)  # by going through a set, not by keeping it
_TAKING = ("join", "extend", "writelines", "add_nodes_from")  # methods that go through an argument
_TELLING = frozenset({"builtins.str", "builtins.repr"})


@check("DET601")
def unsorted_listing(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent unless the order of the listing is known to reach something that keeps it."""
    pattern = call.argument("pathname" if call.name.startswith("glob.") else "pattern").value
    one = names_one_path(pattern, ctx)  # in each folder, where all below are looked through
    if (one and call.name != _THROUGH_ALL) or ctx.module.path.name == "setup.py":  # which lists files to install
        return
    function = ctx.function(call.node)
    if function is not None and ctx.module.qualified(function) == call.name:  # goes on in the folders below
        return
    form = Form.WALK if call.name in _WALKS else Form.SEQUENCE
    trail = Trail(form, gathered=True)
    sink = OrderTracer(ctx.module).destination(call.node, trail)
    if sink is None or is_given_in_vain(sink, ctx) or is_left_to_callers(sink, ctx, trail):
        return
    if sink == CHOICE and (one or leaves_ending_open(pattern, ctx) or _serves_any(call, ctx)):
        return
    if is_left_open_on_request(call.node, ctx):
        return
    repair = _sorted_listing(call, ctx) if form is Form.SEQUENCE else None
    yield ctx.finding(call.node, repair=repair, call=f"{call.name}()", sink=sink)


def _serves_any(call: Call, ctx: Context) -> bool:
    """`glob(join(tempfile.mkdtemp(), "*.pt"))[0]`: who takes one of what it wrote there knows that it is one.

    A test takes one of its fixtures, and asserts what holds of any.
    """
    function = ctx.function(call.node)
    if is_unit_test(ctx.module) or (function is not None and function.name.startswith("test_")):
        return True
    method = receiver_of(call.node)
    folders = [*call.node.args[:1], *([method] if method is not None else ())]
    return any(is_just_made(folder, ctx) for folder in folders)


def _sorted_listing(call: Call, ctx: Context) -> Repair | None:
    """Sort the entries where they are listed; entries of os.scandir have no order, and some uses need an iterator."""
    if call.name == "os.scandir":
        return None
    if call.name in _LISTS or _is_gone_through(call.node, ctx):
        return _sorted_where_iterated(call.node, ctx)
    return None


def _is_gone_through(node: ast.expr, ctx: Context) -> bool:
    """Is something used up where it stands: `for name in names`, `[*names]`, `tuple(names)`, `words.extend(names)`?"""
    parent = ctx.parent(node)
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        return parent.iter is node
    if isinstance(parent, ast.Starred):
        return isinstance(ctx.parent(parent), (ast.List, ast.Tuple, ast.Call))
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    taken = isinstance(parent.func, ast.Attribute) and parent.func.attr in _TAKING
    return taken or not _iterating().isdisjoint(ctx.callees(parent))


def _sorted_where_iterated(node: ast.expr, ctx: Context) -> Repair | None:
    if ctx.module.index.scope_at(node).lookup("sorted") is not None:
        return None  # another function of that name
    held = [element for value in ctx.values(node) for elements in value.elements or () for element in elements]
    if any(element.kind in _UNORDERED and element.type != _PATH for element in held) or _is_mixed(held):
        return None
    parent = ctx.parent(node)
    if isinstance(parent, ast.Call) and len(parent.args) == 1 and "builtins.list" in ctx.callees(parent):
        return unsafe("sort it", replace(parent.func, "sorted"))  # sorted() makes a list itself
    return unsafe("sort it", wrap(node, "sorted"))


def _is_mixed(held: Sequence[Value]) -> bool:
    """`{1, "a", None}`: numbers and texts compare with their like, and functions with nothing."""
    kinds = {Kind.NUMBER if element.kind is Kind.BOOL else element.kind for element in held}
    return len(kinds - {Kind.UNKNOWN}) > 1 or not kinds.isdisjoint({Kind.FUNCTION, Kind.CLASS, Kind.NONE})


@check_file("DET602")
def set_iteration_order(ctx: Context) -> Iterator[Finding]:
    """Silent for sets of numbers, and unless the order of iteration is known to reach something that keeps it."""
    for iterated, whole in _iterations(ctx, anything=_mentions_sets(ctx)):
        if not is_set(iterated, ctx):
            continue
        tracer = OrderTracer(ctx.module)  # a new one, since it follows each place once: two sets may meet in one
        if tracer.is_only_element(iterated):
            continue
        sink = _destination(iterated, whole, tracer)
        if not is_taken_up(sink, ctx):
            continue
        if sink == CHOICE and not is_entry(iterated, ctx) and takes_the_only_one(iterated, ctx):
            continue
        if is_for_an_error(iterated, ctx):
            continue
        if not has_fixed_order(iterated, ctx, numbering=sink == NUMBERING):
            repair = _sorted_where_iterated(iterated, ctx) if whole is iterated else None
            yield ctx.finding(whole, repair=repair, set=ast.unparse(iterated)[:60], sink=sink)
    for given in _handed_on(ctx):
        sink = OrderTracer(ctx.module).destination(given, Trail(each_run=True))
        where_gone_through, taken = next(_taken_where_handed_on(given, ctx), (None, None))
        if sink not in _TAKEN_OVER and (sink is None or sink.removesuffix("()") not in _receiving()):
            sink = where_gone_through
        if sink is not None and not has_fixed_order(given, ctx, numbering=sink == NUMBERING, taken=taken):
            yield ctx.finding(given, set=ast.unparse(given)[:60], sink=sink)


@cache
def _iterating() -> frozenset[str]:
    """Functions that give what they are given in the same order: they go through a set, a copy of which is another."""
    functions = order_table().functions
    return (functions["carrying"] | functions["keying"]) - functions["copying"]


@cache
def _receiving() -> frozenset[str]:
    """Optimizers, containers and data sets of torch, which number what they are given; tables with their columns."""
    return frozenset(name for name in order_table().functions["receiving"] if name.startswith(("torch.", "csv.")))


def _handed_on(ctx: Context) -> Iterator[ast.expr]:
    """Yield sets, and variables that hold them, that are given to functions of the project."""
    project = ctx.module.project
    names = _names_of_sets(ctx)
    for call in ctx.module.index.of_type(ast.Call):
        sets = [given for given in arguments_of(call) if _may_be_set(given) or getattr(given, "id", "") in names]
        if sets and any(project.definition(name) is not None for name in ctx.callees(call)):
            sets = [given for given in sets if not isinstance(given, ast.Call) or _may_give_set(given, ctx)]
            yield from (given for given in sets if is_set(given, ctx) and not is_taken_as_set(given, ctx))


def _taken_where_handed_on(given: ast.expr, ctx: Context) -> Iterator[tuple[str, tuple[ast.expr, Context]]]:
    """`Labels(set(names))`, whose constructor goes through them: yield what takes over the order, and where."""
    call = ctx.parent(given)
    around = OrderTracer(ctx.module)
    for name in ctx.callees(call) if isinstance(call, ast.Call) else ():
        module, function = ctx.module.project.definition(name) or (None, None)
        if module is not None and isinstance(function, ast.ClassDef):
            function = module.classes[function].methods.get("__init__")
        if module is None or not isinstance(function, FUNCTIONS) or not isinstance(call, ast.Call):
            continue
        made = function.name == "__init__" or isinstance(call.func, ast.Attribute)
        parameter = parameter_given(function, call, given, skip_self=made)
        bindings = module.index.scopes[function].bindings.get(parameter or "", ())
        where = ctx.elsewhere(module)
        trail = Trail(each_run=True, calls=1, entered=(Entered(around, call, function),))
        for use in module.flow(bindings[0].scope).uses(bindings[0]) if len(bindings) == 1 else ():
            if _is_gone_through(use, where):
                sink = around.of(module).destination(use, trail)
                if sink is not None and is_taken_up(sink, where):
                    yield sink, (use, where)


def _may_be_set(given: ast.expr) -> bool:
    """`set(names)`, and `known - rare` and `labels_of(rows)`, which may give one: a screen."""
    return (
        isinstance(given, ast.Call)
        or makes_set(given)
        or (isinstance(given, ast.BinOp) and isinstance(given.op, (ast.Sub, ast.BitAnd, ast.BitOr)))
    )


def _may_give_set(given: ast.Call, ctx: Context) -> bool:
    """Is a set made in the function that is called, or may that be anything: a screen."""
    called = list(functions_called(ctx.inference, given))
    inside = (part for _, function in called for part in walk(function) if isinstance(part, ast.expr))
    return makes_set(given) or not (given.args or given.keywords) or any(map(makes_set, inside))


def _names_of_sets(ctx: Context) -> set[str]:
    """Return the variables of a file that are assigned what looks like a set or where one is made: a screen."""
    makers = _makers_of_sets(ctx)
    return {
        target.id
        for statement in ctx.module.index.of_type(ast.Assign)
        for target, value in ((target, unless_none(value)) for target, value in _each_assigned(statement))
        if isinstance(target, ast.Name)
        and (
            makes_set(value)
            or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub))
            or (isinstance(value, ast.Call) and identifier(value.func) in makers)
        )
    }


def _makers_of_sets(ctx: Context) -> set[str]:
    """Return the functions of a file in which a set is made."""
    index = ctx.module.index
    made = [*index.of_type(ast.Set), *index.of_type(ast.SetComp)]
    made += [call for name in ("set", "frozenset") for call in index.calls_by_name.get(name, ())]
    return {function.name for function in map(ctx.function, made) if function is not None}


def _each_assigned(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets and values, those of `words, tags = set(), set()` one by one."""
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=False)
        else:
            yield target, statement.value


def _mentions_sets(ctx: Context) -> bool:
    """Return whether a file makes sets at all: a screen, since typing every iterable costs time."""
    index = ctx.module.index
    views = any(isinstance(op.op, (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)) for op in index.of_type(ast.BinOp))
    words = ("set", "frozenset", "Set", "FrozenSet", "AbstractSet", *(("keys",) if views else ()))
    return bool(index.of_type(ast.Set) or index.of_type(ast.SetComp)) or any(map(index.names_used.get, words))


def _comes_from_elsewhere(iterated: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """`for word in load_words(path):`, `for word in corpus.words:`, `for word in WORDS:` of another file.

    At once, by a variable, or as an entry of what it gives.
    """
    root = iterated
    while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    bindings = ctx.module.index.bindings_of(root) if isinstance(root, ast.Name) else ()
    for binding in bindings:
        if binding.kind is BindingKind.IMPORT:
            found = ctx.module.project.holds(binding.target, ctx.module)
        else:
            given = binding.kind in (BindingKind.ASSIGN, BindingKind.ITERATION)
            made = binding.value if steps and given else None
            found = isinstance(made, ast.Call) and _comes_from_elsewhere(made, ctx, steps - 1)
        if found:
            return True
    return False


def _iterations(ctx: Context, *, anything: bool) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each expression that is iterated, with the expression that iterates it (itself, in a loop).

    Without `anything` only what functions of other files give: in a file that makes no set itself, no other is one.
    """

    def wanted(*iterables: ast.expr) -> list[ast.expr]:
        return [iterable for iterable in iterables if anything or _comes_from_elsewhere(iterable, ctx)]

    index = ctx.module.index
    iterables = [loop.iter for loop in index.of_type(ast.For)]
    iterables += [loop.iter for loop in index.of_type(ast.AsyncFor)]
    iterables += [loop.iter for loop in index.of_type(ast.comprehension)]
    iterables += [given.value for given in index.of_type(ast.YieldFrom)]
    iterables += [added.value for added in index.of_type(ast.AugAssign) if isinstance(added.op, ast.Add)]  # to a list
    yield from ((iterable, iterable) for iterable in wanted(*iterables))
    unpacked = (statement for statement in index.of_type(ast.Assign) if isinstance(statement.targets[0], ast.Tuple))
    yield from ((value, value) for value in wanted(*(statement.value for statement in unpacked)))
    for starred in index.of_type(ast.Starred):
        if isinstance(index.parents[starred], (ast.List, ast.Tuple, ast.Call)):
            yield from ((value, value) for value in wanted(starred.value))
    for call in index.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "pop" and not call.args:
            yield from ((value, call) for value in wanted(call.func.value))
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _TAKING and call.args:
            yield from ((value, value) for value in wanted(call.args[0]))
    iterating = _iterating()
    for call in calls_named(ctx.module, _last_words(iterating)):
        arguments = wanted(*call.args)
        if arguments and iterating.intersection(ctx.callees(call)):
            yield from ((argument, argument) for argument in arguments)
    sorting = order_table().functions["sorting"]
    for call in calls_named(ctx.module, _last_words(sorting)):
        arguments = wanted(*call.args[-1:]) if call.keywords and sorting.intersection(ctx.callees(call)) else []
        if arguments and leaves_ties(call, ctx.inference):
            yield from ((argument, argument) for argument in arguments)
    hashing = order_table().functions["hashing"]
    if any(hashing.intersection(ctx.callees(call)) for call in calls_named(ctx.module, _last_words(hashing))):
        for call in calls_named(ctx.module, _last_words(_TELLING)):  # of a set, text for people unless it is hashed
            arguments = wanted(*call.args[:1])
            if arguments and _TELLING.intersection(ctx.callees(call)):
                yield from ((argument, argument) for argument in arguments)
    receiving = _receiving()  # a set that is pickled stays a set
    for call in calls_named(ctx.module, _last_words(receiving)):
        named = (keyword.value for keyword in call.keywords if keyword.arg == "fieldnames")
        arguments = wanted(*call.args[:1], *named)
        if arguments and receiving.intersection(ctx.callees(call)):
            yield from ((argument, argument) for argument in arguments)


def _last_words(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


def _destination(iterated: ast.expr, whole: ast.expr, tracer: OrderTracer) -> str | None:
    if not isinstance(whole, ast.Call) or whole.func is not tracer.index.parents.get(iterated):
        return tracer.destination(iterated, Trail(each_run=True))
    return tracer.taken_out(iterated, whole)
