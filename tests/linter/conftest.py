"""Small projects for tests: files in, the module under test out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.project import Project
from detlint.linter.source.sources import SourceFile, SourceProblem, read_source
from tests.linter.cached import IDLE, PROGRAM, write

MakeModule = Callable[..., Module]


@pytest.fixture
def make_module(tmp_path: Path) -> MakeModule:
    """Write `files` and `code` (as `main.py`) into one project and return the module of `main.py`."""

    def make(code: str, files: dict[str, str] | None = None) -> Module:
        (tmp_path / "pyproject.toml").write_text("")
        for name, text in {**(files or {}), "main.py": code}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        source = read_source(tmp_path / "main.py", "main.py")
        assert isinstance(source, SourceFile)
        module = Project().begin(source)
        assert not isinstance(module, SourceProblem)
        return module

    return make


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program whose seeding, if there is any, is done in another file."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pyproject.toml", "[tool.detlint]\n")
    write(tmp_path / "train.py", PROGRAM)
    write(tmp_path / "helper.py", IDLE)
    return tmp_path
