"""A folder in which tests run the command line, and small programs to put into it."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from detlint.cli import main

DETLINT = [sys.executable, "-m", "detlint"]

DROPOUT = "import torch.nn.functional as F\n\ndef forward(x):\n    return F.dropout(x, 0.5)\n"
CLEAN = "import torch\n"
BENCHMARK = "import torch\n\ntorch.backends.cudnn.benchmark = True\n"
LISTING = "import os\n\ndef files(root):\n    return [name for name in os.listdir(root)]\n"


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        return json.loads(self.out)


class Shell:
    """A folder in which to run the command line, in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def __call__(self, *args: str, stdin: bytes = b"") -> Outcome:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exited:
            main(list(args))
        captured = self._capsys.readouterr()
        assert isinstance(exited.value.code, int)
        return Outcome(exited.value.code, captured.out, captured.err)
