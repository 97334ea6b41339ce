"""What a file's text says about names, before anybody parses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from detlint.linter.source.mentions import Mentions, mentions


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("def seed(): pass", True),
        ("import random as seed", True),
        ("seeds = reseed(seed_all)", False),
        ("x.seed", True),
        ("", False),
    ],
)
def test_words_are_found_whole(tmp_path: Path, text: str, holds: bool) -> None:
    path = tmp_path / "some.py"
    path.write_text(text)
    assert mentions(path, "seed") is holds
    assert Mentions().may_export(path, "seed") is holds


@pytest.mark.parametrize("text", ["from .seeds import *", "from .seeds import  *", "from .seeds import\\\n  *"])
def test_star_imports_leave_every_name_open(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some.py"
    path.write_text(text)
    assert Mentions().may_export(path, "anything")
    assert not mentions(path, "anything")


def test_a_file_that_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    assert not Mentions().may_export(tmp_path / "missing.py", "seed")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes among its files")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "main.py").write_text("import seed\n")
    search = Mentions().scripts(tmp_path)
    assert search is not None
    assert search.found == (tmp_path / "main.py",)
