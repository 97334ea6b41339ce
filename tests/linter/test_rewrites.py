"""The same program written in another way has the same findings: in a helper, a class, a configuration, another file.

Each example of every rule is rewritten in one of the ways of `benchmarks/rewriting/`, which goes by its text.
"""

from __future__ import annotations

import io
import sys
import zlib
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from detlint.rulebook import load_rules

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from rewrites import AS_WRITTEN, Case, linted, variants, write
from rewriting import REWRITES, rewritten

# Some rewrites take away what a rule goes by: a helper called `make` does not say what it gives.
_MOST = {"bad": 0.05, "good": 0.03}
_PROGRAM = """
import glob
import os as system
import random

SIZES = [3, 1, 2]


class Counter:
    def __init__(self, start):
        super().__init__()
        self.start = int(start)

    def up(self, by):
        total = self.start + by
        total = int(str(total))
        return total


def pick(values, largest=True):
    if not values:
        return None
    chosen = max(values) if largest else min(values)
    return chosen


def show(values):
    kept = []
    for value in values:
        if value > 1:
            kept.append(value * 2)
    if len(kept) > 1:
        text = "many"
    else:
        text = "few"
    doubled = [str(value) for value in sorted(kept, reverse=True) if value]
    return ", ".join(doubled) + text.upper().strip()


random.seed(3)
low = min(SIZES)
name = glob.escape(str(random.random()))
first = pick(SIZES, largest=False)
second = Counter(4).up(first)
print(show(SIZES), first, second, system.path.join("a", "b"), low, name)
for size in sorted(SIZES, reverse=True):
    print(size, pick([size, second], largest=True))
"""


def _output(code: str) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(compile(code, "program", "exec"), {"__name__": "__main__"})
    return shown.getvalue()


@pytest.mark.parametrize("name", sorted(REWRITES))
def test_a_rewrite_keeps_what_a_program_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = dict(rewritten(_PROGRAM))
    if name not in variants:
        assert name in _WITHOUT_PLACE, "nothing in the program to rewrite"
        return
    for path, text in variants[name].items():
        (tmp_path / (path or "program.py")).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["program.py"])
    for module in ("extracted", "parts"):
        sys.modules.pop(module, None)
    lines = [line for line in _output(variants[name][""]).splitlines() if not line.startswith(("pick ", "show "))]
    assert lines == _output(_PROGRAM).splitlines()


_WITHOUT_PLACE = {"in-module-dict", "whole-imports"}


@pytest.mark.parametrize("kind", ["bad", "good"])
def test_most_examples_have_the_findings_of_what_they_are_rewritten_to(kind: str, tmp_path: Path) -> None:
    cases: dict[Case, list[Path]] = {}
    number = 0
    for code, rule in load_rules().items():
        for at, example in enumerate(getattr(rule, kind)):
            forms = dict(variants(example))
            plain = forms.pop(AS_WRITTEN, None)
            if plain is None:
                continue  # a notebook, or an example of what cannot be parsed
            number += 1
            name = list(forms)[zlib.crc32(example.code.encode()) % len(forms)]
            for rewrite, texts in ((AS_WRITTEN, plain), (name, forms[name])):
                folder = tmp_path.resolve() / f"{number}-{rewrite}"
                cases[Case(code, kind, at, example.title, rewrite)] = write(folder, example, texts)
    found = linted(cases, jobs=None)
    as_written = {case.example: counts for case, counts in found.items() if case.rewrite == AS_WRITTEN}
    changed = {case.example: counts for case, counts in found.items() if case.rewrite != AS_WRITTEN}
    assert number > 1000
    assert kind == "good" or sum(counts.total() for counts in as_written.values()) > number
    apart = [example for example, counts in changed.items() if counts != as_written[example]]
    assert len(apart) <= _MOST[kind] * number
