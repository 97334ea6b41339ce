"""`detlint.lint` gives what the command line gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import detlint
from detlint.errors import ConfigError, UsageError

DROPOUT = "import torch.nn.functional as F\n\ndef forward(x):\n    return F.dropout(x, 0.5)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "detlint.toml").write_text("")
    (tmp_path / "ignoring.toml").write_text('ignore = ["DET2"]')
    (tmp_path / "model.py").write_text(DROPOUT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_findings(project: Path) -> None:
    for result in (detlint.lint(), detlint.lint("model.py"), detlint.lint(project, "model.py", isolated=True)):
        (finding,) = result.findings
        assert isinstance(finding, detlint.Finding)
        assert (finding.code, str(finding.location), result.files) == ("DET202", "model.py:4:12", 1)


def test_choices(project: Path) -> None:
    assert detlint.lint(select=["DET6"]).findings == ()
    assert detlint.lint(select="DET6").findings == ()
    assert detlint.lint(ignore="DET1, DET2").findings == ()
    assert detlint.lint(ignore=["functional-dropout-always-on"]).findings == ()
    assert detlint.lint(config="ignoring.toml").findings == ()


def test_errors(project: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.py: "):
        detlint.lint("nothing.py")
    with pytest.raises(ConfigError, match="unknown rule 'DET20X'"):
        detlint.lint(select=["DET20X"])
