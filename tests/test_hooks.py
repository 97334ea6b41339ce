"""What pre-commit runs is what the command line knows."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[1] / ".pre-commit-hooks.yaml"
BENCHMARK = "import torch\n\ntorch.backends.cudnn.benchmark = {}\n"


def entries() -> dict[str, list[str]]:
    """Return the commands of the hooks by id; the file is plain enough to be read without a YAML parser."""
    found, hook = {}, ""
    for line in HOOKS.read_text(encoding="utf-8").splitlines():
        key, _, value = line.lstrip("- ").partition(": ")
        if key == "id":
            hook = value
        elif key == "entry":
            found[hook] = shlex.split(value)
    return found


@pytest.mark.parametrize(
    ("hook", "after", "code"),
    [("detlint", BENCHMARK.format(True), 1), ("detlint-fix", BENCHMARK.format(False), 0)],
)
def test_hook(tmp_path: Path, hook: str, after: str, code: int) -> None:
    path = tmp_path / "a.py"
    path.write_text(BENCHMARK.format(True))
    program, *arguments = entries()[hook]
    assert program == "detlint"
    command = [sys.executable, "-m", "detlint", *arguments, "a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (path.read_text(), done.returncode) == (after, code)
