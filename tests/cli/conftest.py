"""The command line in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import CLEAN, DROPOUT, Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detlint.toml").write_text("")
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def project(shell: Shell) -> Shell:
    """One finding in `bad.py`, none in `good.py`."""
    shell.write("bad.py", DROPOUT)
    shell.write("good.py", CLEAN)
    return shell
