"""What a question gives must not depend on what was asked before it."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from detlint.linter.analysis.questions import Questions


class Asker:
    """Asks each name of a graph what the names that it leads to give."""

    def __init__(self, leads_to: dict[str, str]) -> None:
        self.leads_to = leads_to
        self.questions = Questions()
        self.kept: dict[str, Any] = {}
        self.worked_out: list[str] = []

    def ask(self, name: str) -> Any:
        return self.questions.answer(self.kept, name, self._work_out, "?")

    def _work_out(self, name: str) -> Any:
        self.worked_out.append(name)
        return name, *(self.ask(inner) for inner in self.leads_to[name])


def test_a_question_that_leads_back_to_itself_is_cut_short_there() -> None:
    asker = Asker({"a": "b", "b": "a"})
    assert asker.ask("a") == ("a", ("b", "?"))
    assert asker.ask("b") == ("b", ("a", "?"))


@pytest.mark.parametrize("seed", range(40))
def test_answers_do_not_depend_on_what_was_asked_before(seed: int) -> None:
    generator = random.Random(seed)
    names = "abcdef"
    leads_to = {name: "".join(generator.sample(names, generator.randint(0, 3))) for name in names}
    alone = {name: Asker(leads_to).ask(name) for name in names}
    for order in itertools.islice(itertools.permutations(names), generator.randint(0, 50), None, 97):
        asker = Asker(leads_to)
        assert {name: asker.ask(name) for name in order} == alone
        assert {name: asker.ask(name) for name in order} == alone


def test_an_answer_is_worked_out_once() -> None:
    asker = Asker({"a": "bb", "b": "cc", "c": "", "d": "ab"})
    asker.ask("a")
    asker.ask("d")
    assert sorted(asker.worked_out) == ["a", "b", "c", "d"]


def test_members_of_a_circle_are_worked_out_once_for_each_way_in() -> None:
    asker = Asker({"a": "bbb", "b": "cc", "c": "a", "d": "aaa"})
    asker.ask("d")
    asker.ask("a")
    assert sorted(asker.worked_out) == ["a", "b", "c", "d"]


def test_too_deep_is_kept_for_nobody_else() -> None:
    names = [chr(0x4E00 + number) for number in range(60)]
    asker = Asker(dict(zip(names, [*names[1:], ""], strict=True)))
    assert "?" in str(asker.ask(names[0]))
    assert "?" not in str(asker.ask(names[20]))
