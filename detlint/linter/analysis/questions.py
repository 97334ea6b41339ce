"""Questions that lead to questions, across files: how deep they may go, and which answers are worth keeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

# `x = x.method()` takes three; Python's own limit is several times as far away.
_MAX_DEPTH = 48

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")


class Questions:
    """Answers what depends on answers of the same kind, up to a depth at which what cannot be told is the answer.

    An answer that rests on such a refusal is kept for the outermost question only, as another one may come by a
    shorter way: what is found in a line must not depend on which other lines were looked at.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._refusals = 0
        self._cut: dict[tuple[Callable[[Any], Any], object], Any] = {}  # answers that rest on a refusal

    def answer(
        self, kept: dict[AskedT, AnswerT], asked: AskedT, work_out: Callable[[AskedT], AnswerT], otherwise: AnswerT
    ) -> AnswerT:
        """Return `work_out(asked)`, kept in `kept`; `otherwise` where it leads back to itself or too deep."""
        if asked in kept:
            return kept[asked]
        with self as allowed:
            if not allowed:
                return otherwise
            if (work_out, asked) in self._cut:
                self._refusals += 1
                return self._cut[work_out, asked]  # type: ignore[no-any-return]
            refusals = self._refusals
            kept[asked] = otherwise
            found = kept[asked] = work_out(asked)
            if self._refusals != refusals:
                self._cut[work_out, asked] = kept.pop(asked)
            return found

    def __enter__(self) -> bool:
        """Go one question deeper; gives whether that is allowed."""
        self._depth += 1
        allowed = self._depth <= _MAX_DEPTH
        self._refusals += not allowed
        return allowed

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._cut.clear()
