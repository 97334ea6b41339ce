"""DET303: fresh memory is read before anything was written to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

from detlint.findings import Finding
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.registry import check
from detlint.linter.memory.containers import (
    JOINING,
    read_of_elements,
    read_of_entry,
    read_of_list,
    read_of_value,
    returned_container,
)
from detlint.linter.memory.erased import is_erased
from detlint.linter.memory.made import is_fresh
from detlint.linter.memory.marks import write_one_number
from detlint.linter.memory.needs import (
    guards_emptiness,
    is_asked_for_form,
    is_in_each_round,
    reads_what_rounds_left,
    tests_of_need,
)
from detlint.linter.memory.parts import (
    are_alternatives,
    is_filled_by_choice,
    is_under_same_choice,
    left_to_choice,
    names_extent,
    only_in_part,
    tells_extent,
)
from detlint.linter.memory.promised import is_promised
from detlint.linter.memory.uses import Fate, fate, registered_name
from detlint.linter.memory.weights import unwritten_attribute
from detlint.linter.source.names import LOOPS, Binding, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk

_MAX_NAMES = 3
# What is named so, or ends in `_`, may write the rest of memory of which a part is written.
_COMPLETES = re.compile(r"fill|copy|update|gather|reduce|broadcast|load|pad|init|complete|all_to_all|recv|send|read|_$")
# Functions of such names, or so decorated, hand out memory that their callers fill, or that stands for a shape only.
_ALLOCATORS = re.compile(
    r"empty|alloc|buffer|placeholder|storage|workspace|scratch|cache|uninit|new_|fake|meta|abstract|dummy|launch",
    re.IGNORECASE,
)


@check("DET303")
def uninitialized_memory(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent wherever a write may come first, and for memory handed to code that is not read here."""
    if not is_fresh(call, ctx):
        return
    read = _read(call.node, ctx)
    if read is not None and not _pads_bytes(call.node, read, ctx) and not _lengthens(read, call.node, ctx):
        returned = ctx.parent(read)
        text = ast.unparse(returned if isinstance(returned, ast.Return) and call.node in walk(read) else read)
        short = text if len(text) <= 60 else f"{text[:57]}..."
        yield ctx.finding(call.node, call=f"{call.name}()", read=short, line=ctx.line(read))


def _pads_bytes(node: ast.Call, read: ast.expr, ctx: Context) -> bool:
    """Bytes behind a pickled object make messages of one length; who receives them cuts them off again."""
    joined = isinstance(read, ast.Call) and JOINING.intersection(ctx.callees(read))
    return bool(joined) and all(value.dtype == "uint8" for value in ctx.values(node))


def _lengthens(read: ast.expr, made: ast.Call, ctx: Context) -> bool:
    """`store = torch.cat((store, torch.empty(more)))`: room behind what is in use, which is filled as it is used.

    A parameter, `tokens = torch.cat((tokens, self.token))`, is no room.
    """
    statement = ctx.statement(read)
    if not isinstance(read, ast.Call) or not isinstance(statement, ast.Assign) or statement.value is not read:
        return False
    joined = read.args[0] if read.args and JOINING.intersection(ctx.callees(read)) else None
    parts = [_unsliced(part) for part in joined.elts] if isinstance(joined, (ast.Tuple, ast.List)) else []
    return not _is_parameter(made, ctx) and any(ast.unparse(target) in parts for target in statement.targets)


def _unsliced(node: ast.expr) -> str:
    """Return `colors` of `colors[..., :-1]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node)


def _read(node: ast.expr, ctx: Context, names: int = _MAX_NAMES, begun: bool = False) -> ast.expr | None:
    """Return the expression that reads the fresh memory `node` before it is written, or None.

    It may be handed on from name to name, up to `names` of them, after a part of it was written (`begun`).
    """
    outcome, place = fate(node, ctx)
    if outcome in (Fate.READ, Fate.ADDED_TO, Fate.MARKED):
        return place
    if outcome is Fate.RETURNED:
        return _read_of_result(node, place, ctx, names)
    if outcome is not Fate.STORED:
        return read_of_list(place, ctx) or _read_of_container(node, place, ctx)
    name = registered_name(place)
    if name is not None:
        return unwritten_attribute(name, place, ctx)
    for target in _parts_of(_targets(place, node, ctx)):
        if isinstance(target, ast.Name):
            found = _read_of_name(target, node, ctx, names - 1, begun)
        elif isinstance(target, ast.Attribute):
            found = unwritten_attribute(target.attr, target, ctx)
        else:
            found = read_of_entry(target, ctx) if isinstance(target, ast.Subscript) else None
        if found is not None:
            return found
    return None


def _read_of_container(node: ast.expr, container: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what reads an element of a list or a dictionary, or returns it as one that has values."""
    found = read_of_elements(node, container, ctx) or read_of_value(node, container, ctx)
    return found or _promised_container(Fate.WRITTEN, container, ctx)


def _promised_container(outcome: Fate, place: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what a function that promises values returns the memory in: `return {"length": length}` in a reset."""
    returned = returned_container(place, ctx) if outcome is Fate.WRITTEN else None
    return returned if returned is not None and is_promised(returned, ctx) else None


def _is_parameter(node: ast.expr, ctx: Context) -> bool:
    """`nn.Parameter(torch.empty(n))`: whoever asks for a weight initialises it."""
    around = ctx.parent(node)
    return isinstance(around, ast.Call) and "torch.nn.Parameter" in ctx.callees(around)


def _read_of_result(node: ast.expr, returned: ast.expr, ctx: Context, names: int) -> ast.expr | None:
    """`return torch.empty(n)`: in place of what was left out, as an initial state, or where a caller reads it."""
    function = ctx.function(returned)
    if function is None or guards_emptiness(returned, ctx):
        return None
    if is_promised(node, ctx) and not _allocates(function):
        return returned
    if not names or len(list(ctx.flow(returned).returns())) > 1:
        return None  # it may be what is returned where there is nothing to do, or on other devices
    for site in calls_of(function, ctx):
        if site is None:
            return None
        caller, call = site
        read = _read_of_call(call, node, returned, caller, names - 1) if caller.callees(call) else None
        if read is not None and (isinstance(read, ast.BinOp) or not isinstance(caller.parent(read), ast.Return)):
            return read if caller.module is ctx.module else returned
    return None


def _read_of_call(call: ast.Call, node: ast.expr, returned: ast.expr, ctx: Context, names: int) -> ast.expr | None:
    """Return what reads the memory that a call gives, in a tuple perhaps: `h, c = self.init_hidden(n)`."""
    if not isinstance(returned, ast.Tuple):
        return _read(call, ctx, names)
    statement = ctx.parent(call)
    unpacked = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(unpacked, ast.Tuple) or len(unpacked.elts) != len(returned.elts):
        return None
    at = next(at for at, element in enumerate(returned.elts) if node in walk(element))
    target = unpacked.elts[at]
    return _read_of_name(target, call, ctx, names) if isinstance(target, ast.Name) else None


def _targets(value: ast.expr, node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield what the statement binds to the memory, through `a, b = torch.empty(1), torch.empty(1)`."""
    statement = ctx.parent(value)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
            for element, bound in zip(value.elts, target.elts, strict=True):
                if node in ast.walk(element):
                    yield bound
        elif target is not None and not isinstance(value, ast.Tuple):
            yield target


def _parts_of(targets: Iterator[ast.expr]) -> Iterator[ast.expr]:
    """Yield `first` and `second` of `first, second = memory.unbind(0)`, and any other target as it is."""
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _read_of_name(target: ast.Name, made: ast.expr, ctx: Context, names: int, begun: bool = False) -> ast.expr | None:
    """Return what reads the memory under the name `target`; a part of it may be written by then (`begun`)."""
    owner = ctx.module.index.scope_at(target).lookup(target.id)
    bindings = owner.bindings[target.id] if owner is not None else []
    binding = next((found for found in bindings if found.node is target), None)
    flow = ctx.flow(target)
    if binding is None or owner is None or owner.node is not flow.scope.node:
        return None
    if guards_emptiness(target, ctx):
        return None
    outcomes = _settled({use: fate(use, ctx) for use in flow.uses(binding)}, target, ctx)
    if len(outcomes) == 1 and names and [outcome for outcome, _ in outcomes.values()] == [Fate.STORED]:
        return _read(next(iter(outcomes)), ctx, names, begun)  # under another name, and no longer under this one
    if [outcome for outcome, _ in outcomes.values()] == [Fate.RETURNED] and _is_parameter(made, ctx):
        return _read_of_result(made, next(iter(outcomes)), ctx, names)
    if any(ctx.flow(use) is not flow for use in outcomes):
        return None  # a closure may write it
    if len(outcomes) == 1 and (held := _promised_container(*next(iter(outcomes.values())), ctx)) is not None:
        return held
    others = [other for other in bindings if other is not binding]
    memory = _Memory(target, made, others, outcomes, begun, ctx)
    read = memory.first_read()
    if read is None and memory.in_part and names:
        found = (_read_of_name(name, made, ctx, names - 1, begun=True) for name in memory.moved.values())
        read = next((place for place in found if place is not None), None)
    return read


class _Memory:
    """Fresh memory under one name: what becomes of it at each use, and what else binds the name."""

    def __init__(
        self,
        target: ast.Name,
        made: ast.expr,
        others: list[Binding],
        outcomes: dict[ast.Name, tuple[Fate, ast.expr]],
        begun: bool,
        ctx: Context,
    ) -> None:
        self._target, self._made, self._ctx = target, made, ctx
        # An alias may write it, once there is one.
        writes = [use for use, (outcome, _) in outcomes.items() if outcome in (Fate.WRITTEN, Fate.STORED)]
        places = [place for use in writes if isinstance(place := ctx.parent(use), ast.Subscript)]
        self._marks = write_one_number([place for place in places if isinstance(place.ctx, ast.Store)], ctx)
        handed = [
            use
            for use in writes
            if _is_given_on(use, outcomes[use], self._marks, ctx)
            and (begun or any(write is not use and ctx.flow(use).path(write, use) for write in writes))
        ]
        self.moved = {use: name for use in writes if (name := _new_name(use, outcomes, ctx)) is not None}
        stores = [use for use in writes if use not in handed and use not in self.moved]
        fills = [use for use in stores if is_filled_by_choice(use, ctx)]
        parts = [use for use in stores if use not in fills]
        conditional = [use for use in parts if _is_conditional(use, target, ctx)]
        self._choice = left_to_choice(conditional, parts, made, ctx)
        if self._choice is not None:
            if self._choice in tests_of_need(conditional, target, target, made, ctx):
                self._choice = None
            else:
                fills, parts = [*fills, *conditional], [use for use in parts if use not in conditional]
        self.in_part = (not begun and only_in_part(parts, target, made, ctx)) if parts else begun
        self._writes = parts if self.in_part else writes
        self._fills = fills if self.in_part else []
        self._reads = dict(outcomes)
        if self.in_part:
            self._reads.update({use: (Fate.READ, outcomes[use][1]) for use in handed})
        updates = [other.node for other in others if _updates(other, ctx) and isinstance(other.node, ast.Name)]
        self._reads.update({node: (Fate.READ, node) for node in updates})
        self._ends = {write: _done_at(write, ctx) for write in self._writes}
        self._others = [_bound_at(other, ctx) for other in others if not _updates(other, ctx)]

    def first_read(self) -> ast.expr | None:
        """Return what reads the memory where nothing wrote it on some way there."""
        start, flow = self._ctx.statement(self._target), self._ctx.flow(self._target)
        for use, (outcome, place) in self._reads.items():
            if self._counts(use, outcome, place) and flow.path(start, use, avoiding=self._barriers(use)):
                return place
        return None

    def _counts(self, use: ast.Name, outcome: Fate, place: ast.expr) -> bool:
        """Does a use look at places that may be unwritten?"""
        ctx = self._ctx
        told = isinstance(ctx.parent(use), ast.Subscript) or tells_extent(place, self._target.id, ctx)
        if self.in_part and told and not self._marks:
            return False  # it may be the part
        chosen_alike = self._choice is not None and is_under_same_choice(use, self._choice, ctx)
        if chosen_alike or is_asked_for_form(use, self._made, ctx):
            return False
        if self._may_be_complementary and any(
            write.lineno <= use.lineno and use not in walk(done) for write, done in self._ends.items()
        ):
            return False
        if outcome is Fate.RETURNED:
            function = ctx.function(use)
            if function is None or _allocates(function) or guards_emptiness(use, ctx) or _is_parameter(self._made, ctx):
                return False
        elif outcome is not Fate.READ or _reads_a_part(use, self._writes, ctx):
            return False
        return not reads_what_rounds_left(use, [*self._writes, *self._others], ctx)

    @cached_property
    def _may_be_complementary(self) -> bool:
        """The conditions of several writes may complement each other; parts written in two branches do not."""
        conditional = [write for write in self._writes if _is_conditional(write, self._target, self._ctx)]
        pairs = list(combinations(conditional, 2))
        return bool(pairs) and not (self.in_part and all(are_alternatives(*pair, self._ctx) for pair in pairs))

    def _barriers(self, use: ast.Name) -> list[ast.AST]:
        """Return what writes all of the memory, or gives the name to something else."""
        ctx = self._ctx
        bound = [node for node in self._others if is_in_each_round(node, ctx)]
        barriers = [*self._others, *self._fills, *_loops_of(bound, use, ctx)]
        if not self.in_part:
            barriers += [*self._ends.values(), *_loops_of(self._writes, use, ctx)]
            barriers += tests_of_need(self._writes, use, self._target, self._made, ctx)
        return barriers


def _done_at(write: ast.Name, ctx: Context) -> ast.AST:
    """`out[0] = out[0] + x` and `out.copy_(out + x)` write once they have read what they are given."""
    place = ctx.parent(write)
    user = ctx.parent(place) if place is not None else None
    if isinstance(place, ast.Subscript) and isinstance(user, ast.Assign):
        return user
    return user if isinstance(place, ast.Attribute) and isinstance(user, ast.Call) else write


def _new_name(use: ast.Name, outcomes: dict[ast.Name, tuple[Fate, ast.expr]], ctx: Context) -> ast.Name | None:
    """Return the first `out` of `out = out.to(device)`, and `copy` of `copy = out.clone()` after which `out` rests."""
    outcome, place = outcomes[use]
    whole = outcome is Fate.STORED and not isinstance(ctx.parent(use), ast.Subscript)
    targets = _targets(place, place, ctx) if whole else ()
    name = next((target for target in targets if isinstance(target, ast.Name)), None)
    if name is None or name.id == use.id:
        return name
    return None if any(ctx.flow(use).path(use, other) for other in outcomes) else name


def _is_given_on(use: ast.Name, outcome: tuple[Fate, ast.expr], marks: bool, ctx: Context) -> bool:
    """`out[:, :n] = x` and then `y = model(out)`: after a part was written it is given on to be read.

    What only stands as a statement, or is named after it, may write the rest. Who gets lengths along knows what is in
    use, but not of marks: what is 1 in some places is meant to be 0 in all others.
    """
    call = outcome[1]
    if isinstance(call, ast.Dict):
        return marks or (isinstance(ctx.parent(call), ast.Return) and not names_extent(call))
    if isinstance(call, ast.Subscript):
        return marks and isinstance(call.ctx, ast.Load)
    if not isinstance(call, ast.Call) or use not in arguments_of(call):
        return False
    if isinstance(ctx.parent(call), ast.Expr):
        read = read_of_list(call, ctx, returned=True)
        return read is not None and (marks or not tells_extent(read, "", ctx))
    name = identifier(call.func)
    return not (name[:1].isupper() or name == "where" or _COMPLETES.search(name))


def _settled(
    outcomes: dict[ast.Name, tuple[Fate, ast.expr]], made: ast.Name, ctx: Context
) -> dict[ast.Name, tuple[Fate, ast.expr]]:
    """What writes may have written what is added to later; where nothing did on the way there, adding reads.

    So does marking some places where nothing writes the others; two masks may complement each other. Another name by
    which it is only read is no more than a read.
    """
    writes = [use for use, (outcome, _) in outcomes.items() if outcome in (Fate.WRITTEN, Fate.STORED)]
    masked = [place for _, place in outcomes.values() if identifier(place).startswith("masked_")]
    settled = {}
    for use, (outcome, place) in outcomes.items():
        if outcome is Fate.ADDED_TO:
            before = [ctx.statement(write) for write in writes] + list(_loops_of(writes, use, ctx))
            unwritten = ctx.flow(use).path(ctx.statement(made), use, avoiding=before)
            outcome = Fate.READ if unwritten else Fate.WRITTEN
        elif outcome is Fate.MARKED:
            outcome = Fate.WRITTEN if writes or len(masked) > 1 else Fate.READ
        elif outcome is Fate.STORED and _is_only_read(place, ctx):
            outcome = Fate.READ
        settled[use] = (outcome, place)
    return settled


def _is_only_read(stored: ast.expr, ctx: Context) -> bool:
    """`seen = mask.unsqueeze(1)`, where all that is done with `seen` reads it."""
    binding = ctx.binding(stored)
    uses = ctx.flow(stored).uses(binding) if binding is not None else ()
    fates = {fate(use, ctx)[0] for use in uses if ctx.flow(use) is ctx.flow(stored)}
    return len(uses) > 0 and Fate.READ in fates and fates <= {Fate.READ, Fate.UNTOUCHED}


def _allocates(function: FunctionNode) -> bool:
    names = [function.name, *(ast.unparse(decorator) for decorator in function.decorator_list)]
    return any(_ALLOCATORS.search(name) for name in names)


def _is_conditional(write: ast.AST, target: ast.AST, ctx: Context) -> bool:
    """Does a write stand under a condition of its own, not of the memory?"""
    given = {ast.unparse(parent.test) for parent in ctx.ancestors(target) if isinstance(parent, ast.If)}
    tests = (parent.test for parent in ctx.ancestors(write) if isinstance(parent, ast.If))
    return any(ast.unparse(test) not in given for test in tests)


def _reads_a_part(use: ast.AST, writes: list[ast.Name], ctx: Context) -> bool:
    """`out[:i]` in the loop that writes `out[i]`: what is read was written in the rounds before, but for `out[-2:]`."""
    part = ctx.parent(use)
    if isinstance(part, ast.Subscript) and _is_set_anew(part, ctx):
        return False
    if not isinstance(part, ast.Subscript) or not any(isinstance(name, ast.Name) for name in ast.walk(part.slice)):
        return False
    loops = {parent for parent in ctx.ancestors(use) if isinstance(parent, LOOPS)}
    return any(parent in loops for write in writes for parent in ctx.ancestors(write))


def _is_set_anew(part: ast.Subscript, ctx: Context) -> bool:
    """`out[i] = out[i] + x` and `out[i] += x` read what they set."""
    statement = ctx.statement(part)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", part.value)]
    return any(isinstance(target, ast.Subscript) and ast.unparse(target) == ast.unparse(part) for target in targets)


def _bound_at(binding: Binding, ctx: Context) -> ast.AST:
    """`total = total + x` is bound once the statement is done, after it was read."""
    statement = ctx.statement(binding.node)
    return statement if isinstance(statement, ast.Assign) else binding.node


def _updates(binding: Binding, ctx: Context) -> bool:
    update = ctx.parent(binding.node)
    return isinstance(update, ast.AugAssign) and not is_erased(update.target, update, ctx)


def _loops_of(writes: Sequence[ast.AST], read: ast.AST, ctx: Context) -> Iterator[ast.AST]:
    """Yield the loops that write: they are taken to run at least once before what follows them."""
    around = set(ctx.ancestors(read))
    for write in writes:
        yield from (parent for parent in ctx.ancestors(write) if isinstance(parent, LOOPS) and parent not in around)
