"""Which element does a loop keep? The first or the last of those that qualify, the only one, or the best."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from detlint.linter.order.loop import LoopBody
from detlint.linter.source.names import FUNCTIONS, LOOPS
from detlint.linter.source.nodes import arguments_of, identifier, names_in, stored_names

_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PINS = (ast.Eq, ast.Is)
_CHECKSUM = re.compile(r"hash|digest|checksum|md5|sha(1|256|512)|uuid", re.IGNORECASE)
_ALL = frozenset({"total", "all", "expected", "count", "len", "length", "tasks", "jobs", "futures", "workers"})


class LoopChoice(LoopBody):
    """Answers about the conditions under which a body keeps an element.

    `each_run` says that elements come in another order in each run: they are no files. If they are `gathered` as well,
    they are results that come in.
    """

    each_run = False
    gathered = False

    def _picks(self, node: ast.stmt) -> bool:
        """Return whether the statement keeps whichever element comes first (or last) of those that qualify."""
        conditions = list(self._conditions(node))
        if any(map(_compares, self._explained(conditions))) or self._is_pinned(node):
            return False
        return any(map(self._has_element, conditions))

    def _notes_number(self, call: ast.Call, container: ast.expr) -> bool:
        """`if future.result(): found.append(done)`: by its number in the order of completion nobody finds it again.

        A listing and a set are there to be gone through once more.
        """
        if not (self.each_run and self.gathered and any(map(self._is_numbered, call.args))):
            return False
        return self._is_outside(container) and any(map(self._has_element, self._conditions(call)))

    def _is_last(self, node: ast.stmt) -> bool:
        """Return whether each file takes the place of the one before, and nothing decides which of them stays."""
        left = any(isinstance(part, (ast.Break, ast.Return, ast.Yield)) for part in self._nodes)
        return not self.each_run and not left and not any(True for _ in self._branches(node))

    def _is_overwritten(self, entry: ast.Subscript, node: ast.stmt) -> bool:
        """`models[self.fold] = self.load(path)`: the key is no part of the file, so the last one of a fold stays.

        What the body itself reads again is there for this file alone.
        """
        container, around = entry.value, (parent for parent in self._index.ancestors(node) if isinstance(parent, LOOPS))
        if not isinstance(container, ast.Name) or next(around, None) is not self._body or not self._is_last(node):
            return False
        stored = (part for part in ast.walk(self._body) if isinstance(getattr(part, "ctx", None), ast.Store))
        known = isinstance(entry.slice, (ast.Constant, ast.Name, ast.Attribute))
        if not known or not {ast.unparse(entry.slice), *names_in(entry.slice)}.isdisjoint(map(ast.unparse, stored)):
            return False
        flow = self._places.module.flow_at(container)
        uses = [use for made in self._places.module.definitions(container) for use in flow.uses(made)]
        others = [use for use in uses if use is not container]
        if any(self._body in self._index.ancestors(use) for use in others):
            return False
        return any(flow.path(node, use) and not self._places.shown(use) for use in others)

    def _explained(self, conditions: list[ast.expr]) -> Iterator[ast.expr]:
        """Yield conditions, and what the names in them stand for: `better = score < best`."""
        named = frozenset().union(*map(names_in, conditions))
        yield from conditions
        yield from (value for target, value in self._made if value is not None and stored_names(target) & named)

    def _leaves(self, node: ast.stmt) -> bool:
        """Return whether a `break` follows in the same block."""
        block = getattr(self._index.parents[node], "body", [])
        later = block[block.index(node) :] if isinstance(block, list) and node in block else []
        return any(isinstance(statement, ast.Break) for statement in later)

    def _is_cut_short(self) -> bool:
        """`if count >= limit: break`: the order decides which elements are taken up at all."""
        return any(
            isinstance(node, ast.If)
            and isinstance(node.body[-1], ast.Break)
            and isinstance(node.test, ast.Compare)
            and isinstance(node.test.left, ast.Name)
            and node.test.left.id in self._positions
            and not self._has_element(node.test)
            and not any(name.isupper() for name in names_in(node.test))  # a cap that nobody means to reach
            for node in self._nodes
        )

    def _ends_when_filled(self) -> bool:
        """`if len(found) >= wanted: break`, `if done(total): return total`: those that come first are in.

        Asked of an order of this run alone; a bound that is the number of all is reached by the last of them.
        """
        if not self.each_run or isinstance(self._body, FUNCTIONS):
            return False
        return any(
            isinstance(node, ast.If)
            and isinstance(node.body[-1], (ast.Break, ast.Return))
            and any(self._is_filled(part) and self._is_kept(part, node) for part in self._measured(node.test))
            for node in self._nodes
        )

    def _measured(self, test: ast.expr) -> Iterator[ast.expr]:
        """Yield what a condition finds to be enough: `found` of `len(found) >= wanted`, `total` of `done(total)`."""
        if isinstance(test, ast.Compare):
            bound = test.comparators[0]
            counted = test.left if isinstance(test.left, ast.Call) and identifier(test.left.func) == "len" else None
            if counted and isinstance(test.ops[0], (ast.Gt, ast.GtE)) and not any(_tells_all(bound)):
                yield from counted.args
        elif isinstance(test, ast.Call):
            yield from test.args

    def _is_filled(self, container: ast.expr) -> bool:
        """Does the body put what comes of an element into what stands outside: `total.update(row)`, `total += row`?"""
        if not isinstance(container, (ast.Name, ast.Attribute)) or not self._is_outside(container):
            return False
        text = ast.unparse(container)
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                place, given = node.func.value, arguments_of(node)
            elif isinstance(node, ast.AugAssign):
                place, given = node.target, [node.value]
            elif isinstance(node, ast.Assign):
                target = node.targets[0]
                place, given = target.value if isinstance(target, ast.Subscript) else target, [node.value]
            else:
                continue
            if ast.unparse(place) == text and any(map(self._has_element, given)):
                return True
        return False

    def _is_kept(self, container: ast.expr, end: ast.If) -> bool:
        """Return whether what was filled is read after the loop that it ends, or handed back there."""
        last = end.body[-1]
        if isinstance(last, ast.Return) and last.value is not None:
            return not names_in(container).isdisjoint(names_in(last.value))
        if not isinstance(container, ast.Name):
            return True
        made = self._places.module.definitions(container)
        flow = self._places.module.flow_at(container)
        uses = [use for binding in made for use in flow.uses(binding)]
        return any(self._body not in self._index.ancestors(use) and not self._places.shown(use) for use in uses)

    def _is_picked_by_number(self, node: ast.AST) -> bool:
        """`if i < count:`, `if i in chosen:`: does the place of an element decide what is done with it?"""
        return any(map(self._has_position, self._conditions(node)))

    def _conditions(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the tests inside the body that decide whether `node` runs."""
        for branch in self._branches(node):
            yield branch.test

    def _branches(self, node: ast.AST) -> Iterator[ast.If | ast.While]:
        for parent in self._index.ancestors(node):
            if parent is self._body:
                return
            if isinstance(parent, (ast.If, ast.While)):
                yield parent

    def _is_pinned(self, node: ast.stmt) -> bool:
        """Return whether a test asks for one particular element, or for one of a given collection."""
        around = {node, *self._index.ancestors(node)}
        tests = [branch.test for branch in self._branches(node) if around.intersection(branch.body)]  # not if it failed
        parts = [part for test in self._explained(tests) for part in ast.walk(test)]
        return any(isinstance(part, ast.Call) and self._asks_of_all(part) for part in parts) or any(
            self._has_element(part) and (self._asks_for_one(part) or _asks_for_checksum(part))
            for part in parts
            if isinstance(part, ast.Compare)
        )

    def is_for_one(self, node: ast.AST) -> bool:
        """`for kind in kinds: if node.kind == kind: found.append(node)`: one of them is that, or none.

        What it is compared with must be the same for all of them, so that no other element has another turn.
        """
        target = self._body.target if isinstance(self._body, (ast.For, ast.AsyncFor)) else None
        if not isinstance(target, ast.Name):
            return False
        around = {node, *self._index.ancestors(node)}
        tests = [branch.test for branch in self._branches(node) if around.intersection(branch.body)]
        parts = [part for test in tests for part in (test.values if _is_and(test) else [test])]
        return any(
            isinstance(part, ast.Compare)
            and isinstance(part.ops[0], ast.Eq)
            and any(_is_name(side, target) for side in (part.left, *part.comparators))
            and not names_in(part) & (self._bound - {target.id})
            for part in parts
        )

    def _asks_of_all(self, test: ast.Call) -> bool:
        """`all(issubclass(kind, other) for other in kinds)`: of those gone through, one can be so beside all others."""
        others = test.args[0] if identifier(test.func) == "all" and test.args else None
        if not isinstance(others, (ast.GeneratorExp, ast.ListComp)) or not self._has_element(others.elt):
            return False
        return any(names_in(loop.iter) & self._iterated for loop in others.generators)

    def _asks_for_one(self, test: ast.Compare) -> bool:
        """`name == wanted`, which many entries cannot be."""
        return any(isinstance(op, _PINS) for op in test.ops)

    def _refuses_another(self, name: ast.Name) -> bool:
        """`if found is not None: raise …` or `assert not found` in the body: no second entry may match."""
        return any(
            (isinstance(node, ast.Assert) and _is_unset(node.test, name))
            or (isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and _is_set(node.test, name))
            for node in self._nodes
        )


def _tells_all(bound: ast.expr) -> Iterator[bool]:
    """`len(futures)`, `self.total`, `n_expected`: the number of all that are waited for."""
    for part in ast.walk(bound):
        yield isinstance(part, ast.Call) or not _ALL.isdisjoint(identifier(part).lower().split("_"))


def _compares(condition: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Compare) and any(isinstance(op, _COMPARISONS) for op in node.ops)
        for node in ast.walk(condition)
    )


def _asks_for_checksum(test: ast.Compare) -> bool:
    """`digest in name`: whoever looks for a checksum looks for one thing."""
    return isinstance(test.ops[0], ast.In) and _CHECKSUM.search(identifier(test.left)) is not None


def _is_and(test: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _is_name(node: ast.expr, other: ast.expr) -> bool:
    return isinstance(node, ast.Name) and isinstance(other, ast.Name) and node.id == other.id


def _is_set(test: ast.expr, name: ast.expr) -> bool:
    """`found`, `found is not None`."""
    if isinstance(test, ast.BoolOp):
        return any(_is_set(part, name) for part in test.values)
    if isinstance(test, ast.Compare):
        return _is_name(test.left, name) and isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
    return _is_name(test, name)


def _is_unset(test: ast.expr, name: ast.expr) -> bool:
    """`not found`, `found is None`."""
    if isinstance(test, ast.Compare):
        return _is_name(test.left, name) and isinstance(test.ops[0], (ast.Is, ast.Eq))
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is_name(test.operand, name)
