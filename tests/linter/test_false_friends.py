"""Idiomatic code that shares its words with hazards: no default rule may say anything about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths

PROJECTS = sorted(path for path in (Path(__file__).parent / "false_friends").iterdir() if path.is_dir())


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_no_finding(project: Path) -> None:
    result = lint_paths([str(project)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert result.files == len(list(project.glob("*.py"))) >= 3
    assert [f"{finding.location} {finding.code} {finding.message}" for finding in result.findings] == []
    assert result.problems == ()
