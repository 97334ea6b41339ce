"""What becomes of fresh memory under one name: its uses, what else binds the name, and which use reads it unwritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.guards import exclude_each_other
from detlint.linter.memory.aliases import is_copied, reads_of_other_name, reads_of_view
from detlint.linter.memory.containers import read_of_list
from detlint.linter.memory.erased import is_erased
from detlint.linter.memory.helpers import fills_in_part
from detlint.linter.memory.kept import is_read_where_kept
from detlint.linter.memory.left_out import tests_left_to_loading
from detlint.linter.memory.marks import write_one_number
from detlint.linter.memory.messages import is_received_later, tests_of_reception
from detlint.linter.memory.needs import (
    guards_emptiness,
    has_nothing_here,
    is_asked_for_form,
    is_in_each_round,
    reads_what_rounds_left,
    tests_of_need,
)
from detlint.linter.memory.on_request import is_completed_by_callers, is_filled_on_request
from detlint.linter.memory.padding import is_cleared_beside
from detlint.linter.memory.parts import (
    are_alternatives,
    is_filled_by_choice,
    is_made_larger,
    is_under_same_choice,
    left_to_choice,
    names_extent,
    only_in_part,
    tells_extent,
)
from detlint.linter.memory.promised import is_gradient_given_elsewhere, is_shape_only
from detlint.linter.memory.uses import Fate
from detlint.linter.programs.unseen import tells_people
from detlint.linter.source.names import FOR_LOOPS, LOOPS, Binding, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk

# What is named so, or ends in `_`, may write the rest of memory of which a part is written.
_COMPLETES = re.compile(
    r"fill|copy|update|gather|reduce_|broadcast|load|pad|init|complete|all_to_all|recv|send|read|_$"
)
# Functions of such names, or so decorated, hand out memory that their callers fill, or that stands for a shape only.
_ALLOCATORS = re.compile(
    r"empty|alloc|buffer|placeholder|storage|workspace|scratch|cache|uninit|new_|fake|meta|abstract|dummy|launch",
    re.IGNORECASE,
)


class NamedMemory:
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
        self._all_writes = writes
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
        self.in_part = (not begun and _only_in_part(parts, outcomes, target, made, ctx)) if parts else begun
        self._writes = parts if self.in_part else writes
        self._fills = fills if self.in_part else []
        updates = [other.node for other in others if _updates(other, ctx) and isinstance(other.node, ast.Name)]
        self._reads = {node: (Fate.READ, node) for node in updates} | outcomes
        if self.in_part:
            self._reads.update({use: (Fate.READ, outcomes[use][1]) for use in handed})
        self.is_made_larger = self.in_part and is_made_larger(self._writes, ctx)
        self._ends = {write: _done_at(write, ctx) for write in self._writes}
        self._others = [_bound_at(other, ctx) for other in others if not _updates(other, ctx)]

    def first_read(self) -> ast.expr | None:
        """Return what reads the memory where nothing wrote it on some way there."""
        start, flow = self._ctx.statement(self._target), self._ctx.flow(self._target)
        for use, (outcome, place) in self._reads.items():
            barriers = self._barriers(use)
            if self._counts(use, outcome, place) and flow.path(start, use, avoiding=barriers):
                reads = reads_of_view(use, place, self._ctx) or {use: place}
                # What fills the memory until a view is read fills the view.
                read = next((reads[each] for each in reads if flow.path(start, each, avoiding=barriers)), None)
                if read is not None:
                    return read
        return None

    def _counts(self, use: ast.Name, outcome: Fate, place: ast.expr) -> bool:
        """Does a use look at places that may be unwritten?"""
        ctx = self._ctx
        added = outcome is Fate.ADDED_TO  # nothing wrote on some way there: `settled`
        told = tells_extent(place, self._target.id, ctx) or (isinstance(ctx.parent(use), ast.Subscript) and not added)
        if self.in_part and told and not self._marks and not self._clears_others:
            return False  # it may be the part
        chosen_alike = self._choice is not None and is_under_same_choice(use, self._choice, ctx)
        if chosen_alike or is_asked_for_form(use, self._made, ctx) or exclude_each_other(self._made, use, ctx):
            return False
        if (
            not added
            and self._may_be_complementary
            and any(write.lineno <= use.lineno and use not in walk(done) for write, done in self._ends.items())
        ):
            return False
        if self._is_shown_on_the_way(use, place) or (outcome is Fate.READ and is_received_later(place, ctx)):
            return False
        if outcome is Fate.RETURNED:
            function = ctx.function(use)
            if function is None or allocates(function) or is_parameter(self._made, ctx):
                return False
            if guards_emptiness(use, ctx) or has_nothing_here(use, self._made, ctx):
                return False
            if is_shape_only(use, ctx) or self.is_made_larger or is_gradient_given_elsewhere(self._made, ctx):
                return False
            if is_filled_on_request(use, self._writes, ctx) or (self.in_part and is_completed_by_callers(use, ctx)):
                return False
        elif not added and (outcome is not Fate.READ or _reads_a_part(use, self._writes, ctx)):
            return False
        return not reads_what_rounds_left(use, [*self._writes, *self._others], self._target, ctx)

    def _is_shown_on_the_way(self, use: ast.Name, place: ast.expr) -> bool:
        """`print("out:", out)`, and then `kernel[grid](x, out)`: is what is shown written before all that counts?"""
        shown = getattr(self._ctx.statement(place), "value", None)
        if not isinstance(shown, ast.Call) or not tells_people(self._ctx.module, shown):
            return False
        flow = self._ctx.flow(use)
        return any(flow.path(use, write) for write in self._all_writes if self._ctx.flow(write) is flow)

    @cached_property
    def _clears_others(self) -> bool:
        """Is what is filled in part beside this cleared before?"""
        places = [place for write in self._writes if isinstance(place := self._ctx.parent(write), ast.Subscript)]
        return bool(places) and len(places) == len(self._writes) and is_cleared_beside(places, self._ctx)

    @cached_property
    def _may_be_complementary(self) -> bool:
        """The conditions of several writes may complement each other; marks and parts in two branches do not."""
        if self.in_part and self._marks:
            return False
        conditional = [write for write in self._writes if _is_conditional(write, self._target, self._ctx)]
        pairs = list(combinations(conditional, 2))
        return bool(pairs) and not (self.in_part and all(are_alternatives(*pair, self._ctx) for pair in pairs))

    def _barriers(self, use: ast.Name) -> list[ast.AST]:
        """Return what writes all of the memory, or gives the name to something else."""
        ctx = self._ctx
        bound = [node for node in self._others if is_in_each_round(node, ctx)]
        barriers = [*self._others, *self._fills, *_loops_of(bound, use, ctx)]
        if not self.in_part:
            barriers += [*self._ends.values(), *_loops_of(self._writes, use, ctx), *_tried(self._writes, use, ctx)]
            barriers += tests_of_need(self._writes, use, self._target, self._made, ctx)
            barriers += tests_left_to_loading(self._writes, use, ctx)
            barriers += tests_of_reception(self._writes, self._others, use, ctx)
        return barriers


def _only_in_part(
    parts: list[ast.Name],
    outcomes: dict[ast.Name, tuple[Fate, ast.expr]],
    target: ast.Name,
    made: ast.expr,
    ctx: Context,
) -> bool:
    """Do all writes leave something out, or the one function that is given the memory to fill it?"""
    alone = outcomes[parts[0]][1] if len(parts) == 1 else None
    helped = alone is not None and isinstance(ctx.parent(alone), ast.Expr)
    return only_in_part(parts, target, made, ctx) or (
        alone is not None and helped and fills_in_part(alone, parts[0], made, ctx)
    )


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
    targets = targets_of(place, place, ctx) if whole else ()
    name = next((target for target in targets if isinstance(target, ast.Name)), None)
    if name is None or name.id == use.id:
        return name
    return None if _is_used_after(use, outcomes, ctx) else name


def _is_given_on(use: ast.Name, outcome: tuple[Fate, ast.expr], marks: bool, ctx: Context) -> bool:
    """`out[:, :n] = x` and then `y = model(out)`: after a part was written it is given on to be read.

    What only stands as a statement, or is named after it, may write the rest. Who gets lengths along knows what is in
    use, but not of marks: what is 1 in some places is meant to be 0 in all others.
    """
    call = outcome[1]
    if outcome[0] is Fate.STORED and is_read_where_kept(use, ctx):
        return True
    if isinstance(call, ast.Dict):
        return marks or (isinstance(ctx.parent(call), ast.Return) and not names_extent(call))
    if isinstance(call, ast.Subscript):
        return marks and outcome[0] is Fate.STORED
    if not isinstance(call, ast.Call) or use not in arguments_of(call):
        return False
    if outcome[0] is Fate.STORED and next(functions_called(ctx.inference, call), None) is not None:
        return False  # a function of the project that gives it back
    if isinstance(ctx.parent(call), ast.Expr):
        read = read_of_list(call, ctx, returned=True)
        return read is not None and (marks or not tells_extent(read, "", ctx))
    name = identifier(call.func)
    return not ((name[:1].isupper() and not marks) or name == "where" or _COMPLETES.search(name))


def settled(
    outcomes: dict[ast.Name, tuple[Fate, ast.expr]], made: ast.Name, ctx: Context
) -> dict[ast.Name, tuple[Fate, ast.expr]]:
    """What writes may have written what is added to later; where nothing did on the way there, adding reads.

    So does marking some places where nothing writes the others; two masks may complement each other. Another name by
    which it is only read is no more than a read.
    """
    writes = [
        use
        for use, (outcome, place) in outcomes.items()
        if outcome is Fate.WRITTEN or (outcome is Fate.STORED and not is_copied(use, place, ctx))
    ]
    masked = [place for _, place in outcomes.values() if identifier(place).startswith("masked_")]
    settled = {}
    for use, (outcome, place) in outcomes.items():
        if outcome is Fate.ADDED_TO:
            earlier = [write for write in writes if ctx.statement(write) is not ctx.statement(use)]
            before = [ctx.statement(write) for write in earlier] + list(_loops_of(earlier, use, ctx))
            unwritten = ctx.flow(use).path(ctx.statement(made), use, avoiding=before)
            outcome = Fate.ADDED_TO if unwritten else Fate.UNTOUCHED
        elif outcome is Fate.MARKED:
            outcome = Fate.WRITTEN if writes or len(masked) > 1 else Fate.READ
        elif outcome is Fate.STORED and reads_of_other_name(place, ctx):
            outcome = Fate.READ
        elif outcome is Fate.STORED and is_copied(use, place, ctx) and _is_used_after(use, outcomes, ctx):
            outcome = Fate.UNTOUCHED  # what writes the copy leaves this alone
        settled[use] = (outcome, place)
    return settled


def _is_used_after(use: ast.Name, others: Iterable[ast.Name], ctx: Context) -> bool:
    return any(ctx.flow(use).path(use, other) for other in others if ctx.flow(other) is ctx.flow(use))


def allocates(function: FunctionNode) -> bool:
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
    if not isinstance(part, ast.Subscript):
        return False
    names = {name.id for name in ast.walk(part.slice) if isinstance(name, ast.Name)}
    writing = {parent for write in writes for parent in ctx.ancestors(write)}
    for loop in (parent for parent in ctx.ancestors(use) if isinstance(parent, LOOPS)):
        if loop in writing:
            return bool(names)
        names -= {identifier(name) for name in walk(loop.target)} if isinstance(loop, FOR_LOOPS) else set()
    return False


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


def _tried(writes: Sequence[ast.AST], read: ast.AST, ctx: Context) -> Iterator[ast.AST]:
    """Yield each `try` with no handler that writes in any case: nothing follows it unless all of it was done.

    Nor its `finally`, where the memory is made in the `try` itself. A loop in it is taken to run.
    """
    around = set(ctx.ancestors(read))
    for write in writes:
        for parent in ctx.ancestors(write):
            if isinstance(parent, ast.Try) and not parent.handlers and parent not in around:
                yield from (parent, *parent.finalbody[:1])
            elif not isinstance(parent, (ast.expr, ast.Assign, ast.Expr, ast.Try, ast.With, *LOOPS)):
                break


def targets_of(value: ast.expr, node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
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


def is_parameter(node: ast.expr, ctx: Context) -> bool:
    """`nn.Parameter(torch.empty(n))`, `Parameter(data=torch.empty(n))`: whoever asks for a weight initialises it."""
    around = ctx.parent(node)
    around = ctx.parent(around) if isinstance(around, ast.keyword) else around
    return isinstance(around, ast.Call) and "torch.nn.Parameter" in ctx.callees(around)
