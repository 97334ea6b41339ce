"""What branches go by: a test with its parts, what follows from its outcome, and what is known of it on a path."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.source.names import SCOPES
from detlint.linter.source.nodes import identifier, walk

# Calls that answer the same each time they are asked of the same object.
_LASTING = frozenset(
    {"numel", "nelement", "size", "dim", "ndimension", "is_floating_point", "is_complex", "is_tensor"}
    | {"isinstance", "issubclass", "callable"}
)

Fact = tuple[str, bool]
Facts = frozenset[Fact]
"""What conditions, by their text, are known to be."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A test, read positively: `text` is empty where it may have another outcome when it is asked again.

    `parts` are those of an `and` (`all_hold`) or an `or`.
    """

    test: ast.expr
    text: str
    positive: bool
    parts: tuple[Condition, ...]
    all_hold: bool

    def facts(self, truth: bool) -> Iterator[Fact]:
        """Yield what follows from an outcome: of itself, and of the parts of an `and` that holds."""
        truth = truth is self.positive
        if self.text:
            yield self.text, truth
        for part in self.parts if truth is self.all_hold else ():
            yield from part.facts(truth)

    def outcome(self, known: Facts) -> bool | None:
        """Return the outcome that follows from what is known, or None where that leaves it open."""
        found = self._inner_outcome(known)
        return None if found is None else found is self.positive

    def _inner_outcome(self, known: Facts) -> bool | None:
        for truth in (True, False):
            if (self.text, truth) in known:
                return truth
        outcomes = {part.outcome(known) for part in self.parts}
        if (not self.all_hold) in outcomes:
            return not self.all_hold
        return self.all_hold if outcomes == {self.all_hold} else None

    def inner(self) -> Iterator[Condition]:
        """Yield its parts, and theirs."""
        for part in self.parts:
            yield part
            yield from part.inner()


def condition_of(test: ast.expr) -> Condition:
    """Read a test: those that only ask for a form or a type, `x.numel() > 0`, last until the name is bound anew."""
    positive = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        positive = not positive
        test = test.operand
    parts = tuple(map(condition_of, test.values)) if isinstance(test, ast.BoolOp) else ()
    all_hold = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    return Condition(test, ast.unparse(test) if _lasts(test) else "", positive, parts, all_hold)


def _lasts(test: ast.expr) -> bool:
    for node in walk(test):
        if isinstance(node, (ast.NamedExpr, ast.Await, *SCOPES)):
            return False
        if isinstance(node, ast.Call) and identifier(node.func) not in _LASTING:
            return False
    return True
