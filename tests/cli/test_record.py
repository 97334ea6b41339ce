"""`detlint record` and `detlint compare` as commands: exit codes, formats, one clear line for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.cli import main

MODELS = """
import torch
from torch import nn


def make(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4)).eval()


def other():
    return make(1)


def sample():
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Fails(nn.Module):
    def forward(self, x):
        raise KeyError("x")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "models.py").write_text(MODELS)
    assert run(folder, *RECORD, "-o", "one.detlint").returncode == 0
    return folder


RECORD = ("record", "models:make", "--sample", "models:sample")


def run(folder: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: each record is made as on another machine."""
    command = [sys.executable, "-W", "ignore", "-m", "detlint", *args]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    """The command that compares, in this process: what records were made on does not matter to it."""
    monkeypatch.chdir(project)

    def run_here(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main(["compare", *args])
        assert isinstance(exit.value.code, int)
        return exit.value.code, *capsys.readouterr()

    return run_here


def test_two_processes_record_the_same_bits(project: Path, compare: Compare) -> None:
    done = run(project, *RECORD, "--backward", "--output", "a.detlint", PYTHONHASHSEED="1")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("a.detlint: ")
    assert "operators of Sequential" in done.stderr
    run(project, *RECORD, "--backward", "--output", "b.detlint", PYTHONHASHSEED="2")
    code, out, _ = compare("a.detlint", "b.detlint", "--allow", "bitwise")
    assert code == 0
    assert out.startswith("PASSED a.detlint against b.detlint: the same bits\n")
    assert "variables.PYTHONHASHSEED 1 against 2" in out


def test_what_differs_exits_with_1_and_names_it(project: Path, compare: Compare) -> None:
    run(project, "record", "models:other", "--sample", "models:sample", "-o", "two.detlint")
    assert compare("one.detlint", "two.detlint", "--format", "json", "--output", "report.json") == (1, "", "")
    report = json.loads((project / "report.json").read_text())
    assert report["verdict"] == "beyond-rounding"
    assert report["explanations"][0]["subject"] == "weights"
    assert report["first"]["event"]["op"] == "aten.convolution.default"


def test_other_vector_instructions_stand_first(project: Path, compare: Compare) -> None:
    (project / "softmax.py").write_text(
        "import torch\n\n\ndef make():\n    return lambda x: x.softmax(-1)\n\n\n"
        "def rows():\n    return (torch.arange(4096) * 37 % 101).reshape(64, 64) / 64\n"
    )
    for name, variables in (("wide", {}), ("narrow", {"ATEN_CPU_CAPABILITY": "default"})):
        run(project, "record", "softmax:make", "--sample", "softmax:rows", "-o", f"{name}.detlint", **variables)
    code, out, _ = compare("wide.detlint", "narrow.detlint", "--format", "json")
    report = json.loads(out)
    if report["first"] is None:
        pytest.skip("this machine has no vector instructions to switch off")
    assert code == 0
    assert report["verdict"] == "rounding"
    assert report["first"]["event"]["op"] == "aten._softmax.default"
    assert [item["subject"] for item in report["explanations"]] == ["cpu_capability", "variables.ATEN_CPU_CAPABILITY"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("compare", "one.detlint", "none.detlint"), "none.detlint: cannot be read: No such file or directory"),
        (
            ("compare", "models.py", "one.detlint"),
            "models.py: not a record of detlint, or damaged: File is not",
        ),
        (("compare", "one.detlint"), "Missing argument 'B.detlint'."),
        (("compare", "one.detlint", "one.detlint", "--allow", "x"), "Invalid value for '--allow'"),
        (("record", "models:make", "-o", "x.detlint"), "Missing option '--sample'."),
        (("record", "models:make", "--sample", "models:sample"), "Missing option '-o' / '--output'."),
        (("record", "models:mak", "--sample", "models:sample", "-o", "x"), "did you mean 'make'?"),
        (("record", "models:Fails", "--sample", "models:sample", "-o", "x"), "the model raised KeyError: 'x'"),
        ((*RECORD, "-o", "no/x.detlint"), "no/x.detlint: cannot be written: No such file or directory"),
        ((*RECORD, "--device", "cuda:99", "-o", "x"), "device='cuda:99'"),
        (("record", "models:Fails", "--sample", "models:sample", "-o", "/nope/x"), "/nope/x: cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_with_2(
    project: Path,
    args: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "models", raising=False)
    with pytest.raises(SystemExit) as exit:
        main(list(args))
    out, err = capsys.readouterr()
    assert (exit.value.code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
