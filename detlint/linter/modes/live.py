"""What of a function is read in a frame: all but branches that are not taken, and what comes after a way out."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from detlint.linter.analysis.context import MISSING
from detlint.linter.modes.folding import constant, truth
from detlint.linter.modes.frames import Frame
from detlint.linter.source.nodes import CHILD_FIELDS

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def live(body: ast.AST, frame: Frame | None, without: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, parents first, but for what is `without` and what is never reached in the frame."""
    stack = [body]
    while stack:
        node = stack.pop()
        if node in without:
            continue
        yield node
        children = [child for field in _taken(node, frame) for child in reversed(field)]
        stack += children


def _taken(node: ast.AST, frame: Frame | None) -> Iterator[Sequence[ast.AST]]:
    """Yield what stands in each field of a node, as far as it is reached, the last field first."""
    dead = _branch_not_taken(node, frame)
    for name in reversed(CHILD_FIELDS[node.__class__]):
        value = getattr(node, name)
        if value is None or name == dead:
            continue
        parts = [part for part in value if part is not None] if isinstance(value, list) else [value]
        if frame is not None:
            parts = _up_to_end(node, _cases(node, parts, frame), frame)
        yield parts


def _branch_not_taken(node: ast.AST, frame: Frame | None) -> str:
    holds = truth(frame, node.test) if frame is not None and isinstance(node, (ast.If, ast.IfExp)) else None
    return "" if holds is None else "orelse" if holds else "body"


def _up_to_end(node: ast.AST, parts: list[ast.AST], frame: Frame) -> list[ast.AST]:
    """Return the statements up to a way out, and the operands of an `and` or `or` up to the one that decides."""
    decisive = isinstance(node.op, ast.Or) if isinstance(node, ast.BoolOp) else None
    for i, part in enumerate(parts):
        if isinstance(part, ast.stmt) and _leaves(part, frame):
            return parts[: i + 1]
        if decisive is not None and isinstance(part, ast.expr) and truth(frame, part) is decisive:
            return parts[: i + 1]
    return parts


def _cases(node: ast.AST, parts: list[ast.AST], frame: Frame) -> list[ast.AST]:
    """Return the cases of a `match` that may be taken: not `case "batch":` where something else is known."""
    subject = constant(frame, node.subject) if isinstance(node, ast.Match) else MISSING
    if subject is MISSING:
        return parts
    return [part for part in parts if not isinstance(part, ast.match_case) or _may_match(part.pattern, subject)]


def _may_match(pattern: ast.pattern, subject: object) -> bool:
    if isinstance(pattern, ast.MatchOr):
        return any(_may_match(each, subject) for each in pattern.patterns)
    wanted = pattern.value if isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)) else None
    if isinstance(wanted, ast.Constant):
        return wanted.value == subject
    return not isinstance(pattern, ast.MatchSingleton) or wanted is subject


def _leaves(statement: ast.stmt, frame: Frame) -> bool:
    """Does a statement end the block it stands in, in this frame: `return x`, `if not norm: return x`?"""
    if not isinstance(statement, ast.If):
        return isinstance(statement, _LEAVING)
    holds = truth(frame, statement.test)
    return holds is not None and any(_leaves(each, frame) for each in (statement.body if holds else statement.orelse))
