"""Which places of fresh memory do the rounds of a loop leave out: `for i in range(n): … out[i] = x`?"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence

from detlint.linter.analysis.context import Context
from detlint.linter.memory.looped import source_of
from detlint.linter.memory.marks import is_number
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import identifier, walk
from detlint.randomness import load_sources

# A test of these decides which places are in use; whoever reads them knows it.
_IN_USE = re.compile(r"mask|valid|pad|keep|kept|used|active|skip|ignore|done|seen|visited|rank", re.IGNORECASE)
_TELLING = re.compile(r"^(print|warn|warning|info|debug|error|log|write)$")
_COUNTING = frozenset({"range", "trange", "prange"})
_LINEAR = (ast.Add, ast.Sub, ast.Mult)


# --- rounds that write nothing ----------------------------------------------------------------------------------------


def leaves_out_rounds(place: ast.Subscript, loops: Sequence[ast.For], marks: bool, ctx: Context) -> bool:
    """`for i in range(n): if draw() > p: continue; out[i] = x`: each loop counts one of the places written.

    Where writes only mark places, with one number, other loops may look for what there is to mark.
    """
    if any(isinstance(part, ast.Slice) and (part.lower or part.upper) for part in parts_of(place)):
        return False  # `if n > 0: out[i, :n] = x`: what follows is there to be left
    named = set().union(*map(_picked_by, parts_of(place)))
    if marks:
        loops = [loop for loop in loops if named & names_of(loop.target)]
    counters = set().union(*(names_of(loop.target) for loop in loops))
    changing = counters.union(*(bound_in(step) for loop in loops for step in loop.body))
    if not loops or not all(named & names_of(loop.target) for loop in loops) or named & changing - counters:
        return False
    written = [place, *(loop.iter for loop in loops)]  # a loop that writes is taken to run
    starts = [(loop.target, at) for at, loop in enumerate(loops)] + [(each, 0) for each in _handlers(place, ctx)]
    flow = ctx.flow(place)
    if not any(flow.path(start, loops[at].target, avoiding=[written[at], loops[at].iter]) for start, at in starts):
        return False
    tests = [part for part in walk(loops[-1]) if isinstance(part, ast.If) and _decides(part, place, ctx)]
    if any(_IN_USE.search(identifier(part)) for test in tests for part in walk(test.test)) and not marks:
        return False
    differs = not tests or any(_differs(test.test, changing, ctx) for test in tests)
    return differs and (marks or not _keeps_record(place, loops[-1], tests, ctx))


def _picked_by(part: ast.expr) -> set[str]:
    """`i` of `out[i]` and of `out[labels == i]`."""
    sides = (
        [part.left, *part.comparators] if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq) else [part]
    )
    return {side.id for side in sides if isinstance(side, ast.Name)}


def _handlers(place: ast.Subscript, ctx: Context) -> list[ast.ExceptHandler]:
    """Return what is done instead where a write fails, in the same round: `except OSError: continue`."""
    handlers: list[ast.ExceptHandler] = []
    for parent in ctx.ancestors(place):
        if isinstance(parent, ast.For):
            break
        handlers += parent.handlers if isinstance(parent, ast.Try) else []
    return handlers


def _decides(test: ast.If, place: ast.Subscript, ctx: Context) -> bool:
    """Does an `if` stand around a write, or go on with the next round?"""
    return test in ctx.ancestors(place) or any(isinstance(part, ast.Continue) for part in walk(test))


def _differs(test: ast.expr, changing: set[str], ctx: Context) -> bool:
    """Does a condition differ from round to round, by data or by a draw?"""
    words = {identifier(part) for part in walk(test)}
    calls = (part for part in walk(test) if isinstance(part, ast.Call))
    return bool(changing & words) or any(load_sources().draws.get(name) for call in calls for name in ctx.callees(call))


def _keeps_record(place: ast.Subscript, loop: ast.For, tests: Iterable[ast.If], ctx: Context) -> bool:
    """`valid[i] = False`, `left_out.append(i)`: what is left out is written down."""
    statement, around = ctx.statement(place), set(ctx.ancestors(place))
    branches = [branch for test in tests for branch in (test.body, test.orelse)]
    branches += [part.body for part in walk(loop) if isinstance(part, ast.ExceptHandler)]
    for branch in branches:
        writes = any(step is statement or step in around for step in branch)
        noted = [step for step in branch if isinstance(step, ast.Expr) or not (writes or _goes_on(step))]
        if not all(map(_only_tells, noted)):
            return True
    return any(_marks_a_place(part) for part in walk(loop) if part is not statement)


def _goes_on(step: ast.stmt) -> bool:
    return isinstance(step, (ast.Continue, ast.Pass))


def _marks_a_place(step: ast.AST) -> bool:
    """`valid[i] = False`."""
    return (
        isinstance(step, ast.Assign)
        and isinstance(step.value, ast.Constant)
        and any(isinstance(target, ast.Subscript) for target in step.targets)
    )


def _only_tells(step: ast.stmt) -> bool:
    """`print("left out")`, `logger.warning(…)`."""
    call = step.value if isinstance(step, ast.Expr) else None
    return isinstance(call, ast.Constant) or _TELLING.match(identifier(getattr(call, "func", None))) is not None


def passes_over(place: ast.Subscript, loop: ast.For, sizes: list[ast.expr], ctx: Context) -> bool:
    """`for i in range(1, n): out[i] = x`, `range(0, n, 2)`, and `range(n - 1)` of `torch.empty(n)`."""
    counted = _counted(loop, ctx)
    at = next((at for at, part in enumerate(parts_of(place)) if is_counter(identifier(part), loop, ctx)), None)
    if counted is None or at is None:
        return False
    if len(counted.args) == 3:
        step = ctx.constant(counted.args[2])
        return type(step) is int and step > 1
    if len(counted.args) == 2:
        start = ctx.constant(counted.args[0])
        return type(start) is int and start > 0
    end = counted.args[0]
    plain = at < len(sizes) and not any(_is_ellipsis(part) for part in parts_of(place)[:at])
    less = isinstance(end, ast.BinOp) and isinstance(end.op, ast.Sub) and isinstance(end.right, ast.Constant)
    return plain and less and isinstance(end, ast.BinOp) and ast.unparse(end.left) == ast.unparse(sizes[at])


def ends_before_the_data(place: ast.Subscript, loop: ast.For) -> bool:
    """`for x in reversed(xs): out[at] = x; at -= 1; if at == -1: break`: where there are fewer, the front is left."""
    named = {part.id for part in parts_of(place) if isinstance(part, ast.Name)}
    steps = [part for part in walk(loop) if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Sub)]
    down = named & {identifier(step.target) for step in steps}
    tests = [part for part in walk(loop) if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Break)]
    return any(down & names_of(test.test) for test in tests)


# --- the diagonal -----------------------------------------------------------------------------------------------------


def keeps_to_the_diagonal(place: ast.Subscript, loop: ast.For, ctx: Context) -> bool:
    """`out[i, i] = x`, `out[i * n : (i + 1) * n, i * m : (i + 1) * m] = block`, `one_hot[i, labels[i]] = 1`.

    `out[i // n, i % n]` goes everywhere, and `out[i, i:]` beside others may.
    """
    if _marks_a_place(ctx.statement(place)):
        going = [part for part in parts_of(place) if names_of(part) & names_of(loop.target)]
        return len(going) > 1 and all(_is_linear(part) or isinstance(part, ast.Subscript) for part in going)
    carried = _carried(loop, ctx)
    counters = carried | {name for name in names_of(loop.target) if is_counter(name, loop, ctx)}
    steps = [names for part in parts_of(place) if (names := _moves_with(part, counters, ctx))]
    return len(steps) > 1 and (bool(set.intersection(*steps)) or all(names <= carried for names in steps))


def marks_what_data_say(place: ast.Subscript, loop: ast.For, ctx: Context) -> bool:
    """`for k in chosen: hot[k] = 1`, `hot[0, i * n + label] = 1`, `mask[i, :length] = 1`: one number, in some places.

    What goes with the number of the round alone may be everywhere: `for i in range(n): out[i] = 1`.
    """
    statement = ctx.statement(place)
    if not isinstance(statement, ast.Assign) or not is_number(statement.value):
        return False
    worked_out = set().union(*map(bound_in, loop.body))  # `label = labels[i]`
    names = names_of(loop.target) | worked_out
    given = {name for name in names if not is_counter(name, loop, ctx)} if _counted(loop, ctx) is None else worked_out
    source = source_of(loop, ctx)
    if isinstance(source, ast.Call) and identifier(source.func) in _COUNTING | {"arange"}:
        given = worked_out
    return any(
        names_of(part) & (names if isinstance(part, ast.Slice) and not _is_block(part) else given)
        for part in parts_of(place)
    )


def _is_block(part: ast.Slice) -> bool:
    """`i * n : (i + 1) * n`, one after the other."""
    return part.lower is not None and part.upper is not None and isinstance(part.lower, ast.BinOp)


def _moves_with(part: ast.expr, counters: set[str], ctx: Context) -> set[str]:
    """Return the counters that a place moves along with, by whole steps: `i`, `i * n : (i + 1) * n`."""
    part = value_of(part, counters, ctx)
    ends: list[ast.expr | None] = [part]
    if isinstance(part, ast.Slice):
        ends = [part.lower, part.upper]
    elif isinstance(part, ast.Call) and identifier(part.func) == "slice" and len(part.args) == 2:
        ends = list(part.args)
    found = []
    for end in ends:
        end = None if end is None else value_of(end, counters, ctx)
        if end is None or not _is_linear(end):
            return set()
        found.append(counters & names_of(end))
    return set.intersection(*found)


def _is_linear(node: ast.expr) -> bool:
    """`(i + 1) * size`, and not `i // size` or `order[i]`."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _LINEAR) and _is_linear(node.left) and _is_linear(node.right)
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant)) or _is_a_size(node)


def _carried(loop: ast.For, ctx: Context) -> set[str]:
    """Return the offsets that each round moves on, and nothing moves back: `row += len(block)`, `start = end`."""
    moved = [step.target for step in loop.body if isinstance(step, ast.AugAssign) and isinstance(step.op, ast.Add)]
    handed = [step.targets[0] for step in loop.body if isinstance(step, ast.Assign) and _moves_on(step.value)]
    bindings = ctx.flow(loop).scope.bindings
    names = {identifier(target) for target in (*moved, *handed) if isinstance(target, ast.Name)}
    return {name for name in names if len(bindings.get(name, ())) == 2}


def _moves_on(value: ast.expr) -> bool:
    """`end`, `start + n`."""
    return isinstance(value, ast.Name) or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add))


# --- batches ----------------------------------------------------------------------------------------------


def drops_the_last_batch(place: ast.Subscript, loop: ast.For, sizes: list[ast.expr], ctx: Context) -> bool:
    """`for i in range(len(x) // size): out[i * size : (i + 1) * size] = f(x)` of `torch.empty(len(x), 4)`."""
    counted = _counted(loop, ctx)
    count = value_of(counted.args[0], (), ctx) if counted is not None and len(counted.args) == 1 else None
    if isinstance(count, ast.Call) and identifier(count.func) == "int" and len(count.args) == 1:
        count = count.args[0]
    if not isinstance(count, ast.BinOp) or not isinstance(count.op, (ast.FloorDiv, ast.Div)) or not sizes:
        return False
    length = value_of(count.left, (), ctx)
    if not _is_a_size(length) or ast.unparse(length) != ast.unparse(value_of(sizes[0], (), ctx)):
        return False
    counters = names_of(loop.target)
    parts = parts_of(place)
    part = value_of(parts[0], counters, ctx) if parts else None
    several = part is not None and not isinstance(part, ast.Name) and bool(_moves_with(part, counters, ctx))
    return several and not _is_divided(ast.unparse(count.right), loop, ctx)


def leaves_gaps(place: ast.Subscript, ctx: Context) -> bool:
    """`out[row * (height + gap) : row * (height + gap) + height] = tile`: between what two rounds write."""
    for part in parts_of(place):
        start, end = (part.lower, part.upper) if isinstance(part, ast.Slice) else (None, None)
        if start is None or not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Add):
            continue
        step = value_of(start, (), ctx)
        factors = [step.left, step.right] if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult) else []
        written = ast.unparse(end.right)
        sums = [factor for factor in factors if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Add)]
        if ast.unparse(end.left) == ast.unparse(start) and any(
            written in (ast.unparse(each.left), ast.unparse(each.right)) for each in sums
        ):
            return True
    return False


def _is_divided(batch: str, loop: ast.For, ctx: Context) -> bool:
    """`assert len(x) % size == 0`: is it asked in the function whether anything is left?"""
    function = ctx.function(loop)
    return any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and ast.unparse(part.right) == batch
        for part in walk(function if function is not None else ctx.module.tree)
    )


def leaves_beginning(place: ast.Subscript) -> bool:
    """`for rows, cut in groups: out[rows, cut:] = x` with no other write: what stands in front of the cut stays."""
    parts = [part for part in parts_of(place) if isinstance(part, ast.Slice)]
    return any(
        part.upper is None and part.step is None and isinstance(part.lower, (ast.Name, ast.Attribute)) for part in parts
    )


# --- words ------------------------------------------------------------------------------------------------------------


def parts_of(place: ast.Subscript) -> list[ast.expr]:
    """Return what stands in `out[i, :n]`, and in `out[i][:n]`, which is the same place."""
    parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
    row = place.value if isinstance(place.value, ast.Subscript) else None
    before = parts_of(row) if row is not None else []
    return [*before, *parts] if not any(isinstance(part, ast.Slice) or _is_ellipsis(part) for part in before) else parts


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def names_of(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def bound_in(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _counted(loop: ast.For, ctx: Context) -> ast.Call | None:
    """Return `range(n)` of `for i in range(n)`, `for i in tqdm(range(n))`."""
    node = source_of(loop, ctx)
    while isinstance(node, ast.Call):
        if identifier(node.func) in _COUNTING:
            return node if node.args else None
        if not node.args or identifier(node.func) in ("enumerate", "zip", "reversed"):
            return None
        node = node.args[0]
    return None


def _is_enumerated(loop: ast.For, ctx: Context) -> bool:
    source = source_of(loop, ctx)
    return isinstance(source, ast.Call) and identifier(source.func) == "enumerate"


def is_counter(name: str, loop: ast.For, ctx: Context) -> bool:
    """Does a name stand for the number of the round: `i` of `range(n)`, or the first of `enumerate(rows)`?"""
    target = loop.target
    if _is_enumerated(loop, ctx) and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif _counted(loop, ctx) is None:
        return False
    return isinstance(target, ast.Name) and target.id == name


def value_of(node: ast.expr, kept: Collection[str], ctx: Context) -> ast.expr:
    """Return what a variable is set to, where that is one expression and the name is none to be `kept`."""
    bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) and node.id not in kept else ()
    plain = len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN and not bindings[0].index
    value = bindings[0].value if plain else None
    return node if value is None else value


def _is_a_size(node: ast.expr) -> bool:
    """`len(x)`, `x.shape[0]`, `x.size(0)`."""
    if isinstance(node, ast.Subscript):
        return identifier(node.value) == "shape"
    return isinstance(node, ast.Call) and identifier(node.func) in ("len", "size")
