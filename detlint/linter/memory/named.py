"""Memory under one name: which use reads it before anything wrote it, whichever way the code takes?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.guards import exclude_each_other
from detlint.linter.memory.aliases import is_copied, reads_of_other_name, reads_of_view
from detlint.linter.memory.erased import is_erased
from detlint.linter.memory.marks import is_all_but_an_end, is_pasted, leaves_same_end, puts_one_number
from detlint.linter.memory.messages import is_received_later
from detlint.linter.memory.needs import guards_emptiness
from detlint.linter.memory.promised import is_promised
from detlint.linter.memory.uses import Fate
from detlint.linter.source.names import LOOPS, Binding
from detlint.linter.source.nodes import walk

_Loop = ast.For | ast.AsyncFor | ast.While
_Outcomes = dict[ast.Name, tuple[Fate, ast.expr]]


class NamedMemory:
    """Fresh memory under one name: what becomes of it at each use, and what else binds the name."""

    def __init__(
        self, target: ast.Name, made: ast.expr, others: list[Binding], outcomes: _Outcomes, ctx: Context
    ) -> None:
        self._target, self._made, self._ctx = target, made, ctx
        self._flow, self._start = ctx.flow(target), ctx.statement(target)
        updates = [other.node for other in others if _updates(other, ctx) and isinstance(other.node, ast.Name)]
        self._reads: _Outcomes = {node: (Fate.READ, node) for node in updates} | outcomes
        self._added = {use for use, (outcome, _) in self._reads.items() if outcome is Fate.ADDED_TO}
        moves = {ctx.statement(use) for use, (outcome, _) in outcomes.items() if outcome is Fate.MOVED}
        others = [other for other in others if not _updates(other, ctx) and ctx.statement(other.node) not in moves]
        self._rebound = [_bound_at(other, ctx) for other in others]
        # An alias may write it, once there is one.
        writes = [use for use, (outcome, _) in outcomes.items() if outcome in (Fate.WRITTEN, Fate.STORED)]
        self._writes = [*(_done_at(write, ctx) for write in writes), *self._rebound]

    def first_read(self) -> ast.expr | None:
        """Return what reads the memory, if nothing can have written it by then."""
        for use, (outcome, place) in self._reads.items():
            if self._counts(use, outcome, place) and self._is_unwritten(use):
                views = reads_of_view(use, place, self._ctx) or {use: place}
                # What fills the memory until a view is read fills the view.
                read = next((views[each] for each in views if self._is_unwritten(each)), None)
                if read is not None:
                    return read
        return None

    def _counts(self, use: ast.Name, outcome: Fate, place: ast.expr) -> bool:
        """Is this a use that looks at what the memory holds?"""
        if outcome is Fate.RETURNED:
            return is_promised(use, self._ctx) and not guards_emptiness(use, self._ctx)
        if outcome not in (Fate.READ, Fate.ADDED_TO) or exclude_each_other(self._made, use, self._ctx):
            return False
        return not is_received_later(place, self._ctx)

    def _is_unwritten(self, use: ast.Name) -> bool:
        reached = self._flow.path(self._start, use, avoiding=self._rebound)
        return reached and not any(self._may_precede(write, use) for write in self._writes)

    def _may_precede(self, write: ast.AST, use: ast.Name) -> bool:
        """Can a write be done before a use? One in the same loop that follows it is not, in the first round."""
        loop = next((each for each in self._loops_of_both(write, use)), None)
        part = self._ctx.parent(use)
        places = [part.slice] if isinstance(part, ast.Subscript) and use not in self._added else []
        if loop is not None and _named_by_rounds(places, loop):
            return True  # `out[:i]` is what the rounds before wrote
        if not self._flow.path(self._start, write, avoiding=[use]) or not self._flow.path(write, use):
            return False
        if loop is None or _named_by_rounds(_conditions(use, loop, self._ctx), loop):
            return True
        begin = loop.test if isinstance(loop, ast.While) else loop.target
        return self._flow.path(write, use, avoiding=[begin])

    def _loops_of_both(self, write: ast.AST, use: ast.Name) -> Iterator[_Loop]:
        """Yield the loops that go round with a write and a use while the memory stays the same, the innermost first."""
        made, writing = set(self._ctx.ancestors(self._target)), set(self._ctx.ancestors(write))
        for parent in self._ctx.ancestors(use):
            if isinstance(parent, LOOPS) and parent in writing and parent not in made:
                yield parent


def _conditions(use: ast.AST, loop: _Loop, ctx: Context) -> list[ast.expr]:
    """Return what has to hold in a loop where memory is used: `stop` of `if stop and (out[-1] == end).all()`."""
    asked = [test for test, _ in ctx.module.index.conditions_around(use) if loop in ctx.ancestors(test)]
    child: ast.AST = use
    for parent in ctx.ancestors(use):
        if parent is loop:
            break
        if isinstance(parent, ast.BoolOp) and isinstance(child, ast.expr):
            asked += parent.values[: parent.values.index(child)]
        child = parent
    return asked


def _named_by_rounds(parts: Iterable[ast.expr], loop: _Loop) -> bool:
    """Does one of some expressions name what a round of a loop sets?"""
    names = {name.id for part in parts for name in walk(part) if isinstance(name, ast.Name)}
    return any(
        isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id in names for name in walk(loop)
    )


def settled(outcomes: _Outcomes, ctx: Context) -> _Outcomes:
    """Say of each use what it comes to, in view of all others.

    Where nothing writes but one mark, `out[x > 0] = y`, whoever looks at the whole reads the rest; a second mark may
    complement it, unless both put in the same number, `mask[i] = 1`, or leave out the same end: then whoever is handed
    the whole reads the rest too. Who returns what was filled from one end may leave the rest to whoever gets it, but
    not the border around an image. Another name by which memory is only read is no more than a read, and what writes a
    copy leaves the memory alone.
    """
    marked = [place for outcome, place in outcomes.values() if outcome is Fate.MARKED]
    alike = all(
        isinstance(place, ast.Subscript) and (puts_one_number(place, ctx) or leaves_same_end(place, ctx))
        for place in marked
    )
    handed_on = {use for use in outcomes if marked and alike and _is_entered(use, ctx)}
    writing = (use for use, (outcome, _) in outcomes.items() if outcome in (Fate.WRITTEN, Fate.STORED))
    writes = [use for use in writing if use not in handed_on]
    alone = not writes and (len(marked) == 1 or (bool(marked) and alike))
    masked = alone and isinstance(marked[0], ast.Subscript)
    pasted = masked and any(isinstance(place, ast.Subscript) and is_pasted(place) for place in marked)
    result = {}
    for use, (outcome, place) in outcomes.items():
        if outcome is Fate.MARKED:
            outcome = Fate.WRITTEN if not alone else Fate.UNTOUCHED if masked else Fate.READ
        elif masked and use in handed_on:
            outcome = Fate.READ
        elif masked and isinstance(ctx.parent(use), ast.Subscript):
            outcome = Fate.UNTOUCHED  # it may be what was marked
        elif masked and outcome is Fate.RETURNED and (pasted or isinstance(ctx.parent(place), ast.Return)):
            outcome = Fate.UNTOUCHED if _is_begun(marked[0]) and not pasted else Fate.READ
        elif outcome is Fate.STORED and any(_is_named(use.id, target) for target in targets_of(place, place, ctx)):
            outcome = Fate.MOVED
        elif outcome is Fate.STORED and reads_of_other_name(place, ctx):
            outcome = Fate.READ
        elif outcome is Fate.STORED and is_copied(use, place, ctx) and _is_used_after(use, outcomes, ctx):
            outcome = Fate.UNTOUCHED
        result[use] = (outcome, place)
    return result


def _is_entered(use: ast.expr, ctx: Context) -> bool:
    """`batch["mask"] = mask`, `{"mask": mask}`."""
    parent = ctx.parent(use)
    if isinstance(parent, ast.Dict):
        return use in parent.values
    targets = parent.targets if isinstance(parent, ast.Assign) and parent.value is use else []
    keys = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    return bool(keys) and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys)


def _is_begun(mark: ast.expr) -> bool:
    """`rows[:used] = …`, and no index or mask: room for more, perhaps. That is not asked for one place at an end."""
    places = mark.slice if isinstance(mark, ast.Subscript) else mark
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    return not any(map(is_all_but_an_end, parts)) and all(isinstance(part, (ast.Slice, ast.Constant)) for part in parts)


def _is_named(name: str, target: ast.expr) -> bool:
    """`out = out.to(device)` is the same memory under the same name."""
    return isinstance(target, ast.Name) and target.id == name


def _is_used_after(use: ast.Name, others: Iterable[ast.Name], ctx: Context) -> bool:
    return any(ctx.flow(use).path(use, other) for other in others if ctx.flow(other) is ctx.flow(use))


def _done_at(write: ast.Name, ctx: Context) -> ast.AST:
    """`out[0] = out[0] + x` and `out.copy_(out + x)` write once they have read what they are given."""
    place = ctx.parent(write)
    user = ctx.parent(place) if place is not None else None
    if isinstance(place, ast.Subscript) and isinstance(user, ast.Assign):
        return user
    return user if isinstance(place, ast.Attribute) and isinstance(user, ast.Call) else write


def _bound_at(binding: Binding, ctx: Context) -> ast.AST:
    """`total = total + x` is bound once the statement is done, after it was read."""
    statement = ctx.statement(binding.node)
    return statement if isinstance(statement, ast.Assign) else binding.node


def _updates(binding: Binding, ctx: Context) -> bool:
    update = ctx.parent(binding.node)
    return isinstance(update, ast.AugAssign) and not is_erased(update.target, update, ctx)


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
