"""Which torch a project asks for decides what the linter says of it, where no setting does."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.library import lint
from detlint.operators import CONFIRMED, NEWEST, OLDEST
from detlint.requirements import newest_torch
from detlint.settings import Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("requirement", "release"),
    [
        ("torch==2.0.1", "2.0"),
        ("torch == 2.1.2+cu118", "2.1"),
        ("torch==2.1.*", "2.1"),
        ("torch~=2.3.0", "2.3"),
        ("torch>=1.13,<2.4", "2.3"),
        ("torch<=2.3.1", "2.3"),
        ("torch<2.10.3", "2.10"),
        ("torch>=1.10,<2; python_version < '3.12'", "1.13"),
        ("torch!=2.1", CONFIRMED),
        ("torch>=2.0", CONFIRMED),
        ("torch", CONFIRMED),
        ("torch>=2.14", NEWEST),
        ("torch>=99", NEWEST),
        ("torch==99.0", NEWEST),
        ("Torch==2.1.0", "2.1"),
        ("torch==2.14.1", "2.14"),
        ("torch<1.5", OLDEST),
        ("torchvision==0.15.1", None),
        ("pytorch-lightning<2", None),
        ("-r torch.txt", None),
        ("torch @ https://example.org/torch.whl", CONFIRMED),
        ("torch=2.0", None),
    ],
)
def test_requirements(tmp_path: Path, requirement: str, release: str | None) -> None:
    write(tmp_path / "requirements.txt", f"# torch==1.9\nnumpy\n{requirement}  # as tested\n")
    assert newest_torch(tmp_path) == release


def test_a_list_that_windows_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("numpy\r\ntorch==2.1.0\r\n".encode("utf-16"))
    assert newest_torch(tmp_path) == "2.1"


def test_the_least_of_several_counts(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[project]\ndependencies = ['torch>=2,<2.9', 3]\n")
    write(tmp_path / "requirements.txt", "torch==2.6.0")
    assert newest_torch(tmp_path) == "2.6"


@pytest.mark.parametrize(
    "text", ["project = 3", "[project]\ndependencies = 'torch<2'", "[project", "\x00", "[project]\ndependencies = {}"]
)
def test_metadata_that_makes_no_sense_asks_for_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path / "pyproject.toml", text)
    (tmp_path / "requirements.txt").write_bytes(b"torch==2.0\xff")
    assert newest_torch(tmp_path) is None


def test_the_nearest_metadata_counts_up_to_the_top_of_the_project(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch<2")
    write(tmp_path / "repo" / ".git" / "HEAD", "")
    write(tmp_path / "repo" / "server" / "requirements.txt", "torch<2.5")
    write(tmp_path / "repo" / "server" / "docs" / "requirements.txt", "sphinx")
    resolver = ConfigResolver()

    def asked(*parts: str) -> str | None:
        return resolver.for_folder(tmp_path.joinpath(*parts)).torch_version

    assert asked("repo", "server", "docs") == asked("repo", "server") == "2.4"
    assert asked("repo", "client") is asked("repo") is None
    assert asked() == "1.13"


def test_settings_go_first(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch<2.5")
    assert ConfigResolver(overrides=Settings(torch_version="2.9")).for_folder(tmp_path).torch_version == "2.9"
    assert ConfigResolver(isolated=True).for_folder(tmp_path).torch_version is None
    write(tmp_path / "detlint.toml", "torch-version = '2.7'")
    assert ConfigResolver().for_folder(tmp_path).torch_version == "2.7"


def test_the_release_decides_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / ".git" / "HEAD", "")
    write(
        tmp_path / "run.py", "import torch\n\ntorch.use_deterministic_algorithms(True)\nprint(torch.ones(2).cuda())\n"
    )
    assert not lint(".", select=("DET403",)).findings
    write(tmp_path / "requirements.txt", "torch==2.3.1")
    assert [finding.code for finding in lint(".", select=("DET403",)).findings] == ["DET403"]
