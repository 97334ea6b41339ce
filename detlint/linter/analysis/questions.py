"""Questions that lead to questions, across files: how deep they may go, and which answers are worth keeping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

# `x = x.method()` takes three; Python's own limit is several times as far away.
_MAX_DEPTH = 48
_UNCUT = _MAX_DEPTH + 1

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")
_Question: TypeAlias = tuple[Callable[[Any], Any], object]


class Questions:
    """Answers what depends on answers of the same kind; where that leads back to itself or too deep, it cannot be told.

    What is found in a line must not depend on which other lines were looked at, so an answer is kept only where it
    is the same whoever asks. One that was cut short by a question still open is given again until that one closes;
    one by the depth, until the outermost closes, as another question may come by a shorter way.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._open: dict[_Question, int] = {}  # the depth of each
        self._cut_at = _UNCUT  # the smallest depth that cut short what is being worked out; 0 for the limit
        self._cut: dict[_Question, tuple[Any, int]] = {}
        self._cut_by: defaultdict[int, list[_Question]] = defaultdict(list)
        # Answers of questions that lead back to themselves, with those on the way: open, they would be cut short.
        self._circular: dict[_Question, tuple[Any, frozenset[_Question]]] = {}

    def answer(
        self, kept: dict[AskedT, AnswerT], asked: AskedT, work_out: Callable[[AskedT], AnswerT], otherwise: AnswerT
    ) -> AnswerT:
        """Return `work_out(asked)`, kept in `kept`; `otherwise` where it leads back to itself or too deep."""
        if asked in kept:
            return kept[asked]
        question = (work_out, asked)
        if question in self._open:
            self._cut_at = min(self._cut_at, self._open[question])
            return otherwise
        with self as allowed:
            if not allowed:
                return otherwise
            if question in self._cut:
                found, depth = self._cut[question]
                self._cut_at = min(self._cut_at, depth)
                return found  # type: ignore[no-any-return]
            if question in self._circular:
                found, circle = self._circular[question]
                if self._open.keys().isdisjoint(circle):
                    return found  # type: ignore[no-any-return]
            depth = self._depth
            before, self._cut_at = self._cut_at, _UNCUT
            self._open[question] = depth
            found = work_out(asked)
            del self._open[question]
            self._keep(kept, question, found)
            self._cut_at = min(before, self._cut_at) if self._cut_at < depth else before
            return found

    def forget(self) -> None:
        """Free the answers, whose questions refer back to who asks."""
        self._circular.clear()

    def _keep(self, kept: dict[Any, Any], question: _Question, found: object) -> None:
        circle = self._cut_by.pop(self._depth, [])
        for inner in circle:
            self._cut.pop(inner, None)
        if self._cut_at > self._depth:
            kept[question[1]] = found
        elif self._cut_at == self._depth:
            self._circular[question] = found, frozenset(circle)
        else:
            self._cut[question] = found, self._cut_at
            self._cut_by[self._cut_at] += [question, *circle]

    def __enter__(self) -> bool:
        """Go one question deeper; gives whether that is allowed."""
        self._depth += 1
        allowed = self._depth <= _MAX_DEPTH
        if not allowed:
            self._cut_at = 0
        return allowed

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._cut_at = _UNCUT
            self._cut.clear()
            self._cut_by.clear()
