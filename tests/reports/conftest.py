"""Findings of every kind, and a run that knows their rules and their source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from detlint.findings import Applicability, Edit, Finding, Fix, Location, Related, Severity
from detlint.reports.run_info import RunInfo
from detlint.rulebook import Example, Rule
from detlint.tables import RULES_FOLDER

SOURCES = {
    ("src/model.py", None): [
        "import torch.nn.functional as F",
        "",
        "class Model(nn.Module):",
        "    def forward(self, x):",
        "        return F.dropout(x, 0.5)",
    ],
    ("src/model.py", 3): [],
    ("nb.ipynb", 3): ["x = 1", "y = torch.empty(3).sum()"],
}


def source_lines(path: str, cell: int | None) -> list[str]:
    return SOURCES.get((path, cell), [])


RULES = {
    "DET202": Rule(
        code="DET202",
        name="functional-dropout-always-on",
        family="inference",
        severity=Severity.WARNING,
        default=True,
        summary="functional dropout that also drops at inference",
        message="{call} drops",
        why="It defaults to training=True.",
        fix="Pass training=self.training.",
        path=RULES_FOLDER / "DET202-functional-dropout-always-on.toml",
        references=("https://docs.pytorch.org/dropout",),
        bad=(
            Example("left at its default", "import f\nf.dropout(x)\n", (2,)),
            Example("again", "f.dropout(y)\n", (1,)),
        ),
        good=(Example("tied to the mode", "f.dropout(x, training=t)\n"),),
    ),
    "DET303": Rule(
        code="DET303",
        name="uninitialized-memory",
        family="operators",
        severity=Severity.ERROR,
        default=False,
        summary="memory read before it is written",
        message="{call} is read",
        why="It holds what was there.",
        fix="Use zeros.",
        path=RULES_FOLDER / "DET303-uninitialized-memory.toml",
    ),
}

DROPOUT = Finding(
    code="DET202",
    name="functional-dropout-always-on",
    severity=Severity.WARNING,
    message="F.dropout drops at inference too",
    location=Location("src/model.py", 5, 16, 5, 33),
    remedy="Pass training=self.training.",
    passes=("forward",),
    devices=("cpu", "cuda"),
    related=(Related(Location("src/model.py", 3, 1, 3, 24), "the module's class"),),
    fix=Fix(
        "tie it to the mode",
        Applicability.UNSAFE,
        (Edit(Location("src/model.py", 5, 32, 5, 32), ", training=self.training"),),
    ),
    url="https://example.org/DET202",
)
EMPTY = Finding(
    code="DET303",
    name="uninitialized-memory",
    severity=Severity.ERROR,
    message="torch.empty is read before it is written",
    location=Location("nb.ipynb", 2, 5, 2, 19, cell=3),
)


@pytest.fixture
def findings() -> tuple[Finding, ...]:
    """An error in a notebook, a warning in a module with everything a finding can hold, one silenced, one note."""
    silenced = replace(DROPOUT, location=Location("src/model.py", 5, 16, 5, 33), suppressed="measured, harmless")
    note = replace(DROPOUT, severity=Severity.INFO, fix=None, related=(), passes=(), devices=(), url="")
    return (EMPTY, DROPOUT, silenced, note)


@pytest.fixture
def run(tmp_path: Path) -> RunInfo:
    return RunInfo(rules=RULES, files=2, seconds=0.5, root=tmp_path, source_lines=source_lines)


@pytest.fixture
def hostile() -> Finding:
    """A finding whose every text tries to break out of the format it is put into."""
    text = "a\x1b[31m\r\n::error::x%0A,: <b>&\"'\u202e\ud800]]>\x00"
    return replace(
        DROPOUT,
        message=text,
        remedy=text,
        location=Location(f"src/{text}.py", 1, 1, 1, 2),
        related=(Related(Location(text, 1, 1, 1, 2), text),),
        fix=None,
        suppressed=None,
    )
