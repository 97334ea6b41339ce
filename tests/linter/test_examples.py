"""Every example of every rule file is a test: exactly its lines, one finding each, and nothing from other rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.linter.examples import complaint, run_example
from detlint.rulebook import Example, Rule, load_rules

RULES = load_rules()


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.code}-{kind}-{number}")
        for rule in RULES.values()
        for number, example in enumerate(getattr(rule, kind), start=1)
    ]


@pytest.mark.parametrize(("rule", "example"), [*cases("bad"), *cases("good")])
def test_example(rule: Rule, example: Example, tmp_path: Path) -> None:
    wrong = complaint(example, run_example(rule, example, tmp_path))
    assert not wrong, f"{rule.path.name}: {wrong}"


LATER = cases("later")


@pytest.mark.skipif(not LATER, reason="no rule file names a known miss")
@pytest.mark.parametrize(("rule", "example"), LATER)
def test_known_miss_is_still_missed(rule: Rule, example: Example, tmp_path: Path) -> None:
    outcome = run_example(rule, example, tmp_path)
    assert outcome.lines != example.lines, f"{rule.path.name}: {example.title}: found now; move it to [[bad]]"
