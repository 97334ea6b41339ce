"""What a file's text says about names, before anybody parses it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from detlint.linter.source.mentions import Mentions, mentions
from detlint.linter.source.words import Words, holds, is_word


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


def test_a_list_of_all_words_says_what_searching_each_text_says() -> None:
    texts = [
        b"seed = reseed(seeds)",
        b"x.seed\xc3\xa9(seed2)",
        b"'2seed' # seed_all",
        "gr\u00f6\u00dfe_seed".encode(),
        b"\xffseed\x00",
        b"",
    ]
    words = Words(texts)
    for name in ("seed", "reseed", "seed2", "seed_all", "_seed", "e_seed", "x", "r", "gr", "nothing"):
        assert is_word(name)
        assert list(words.holding(name)) == [at for at, text in enumerate(texts) if holds(text, name)], name
    assert not is_word("gr\u00f6\u00dfe")
    assert not is_word("x.seed")
    assert not is_word("2seed")


def test_a_search_finds_the_same_however_many_went_before_it(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("seed = gr\u00f6\u00dfe\n", encoding="utf-8")
    (tmp_path / "a.py").write_text("reseed(seed)\n")
    (tmp_path / "c.py").write_text("seeds\n")
    names = ("seed", "seeds", "gr\u00f6\u00dfe", "nothing")
    first = {(name, most): Mentions().of(name, tmp_path, most) for name in names for most in (0, 1, 9)}
    late = Mentions()
    for turn in range(100):
        late.of(f"other_{turn}", tmp_path, 9)
    assert {key: late.of(key[0], tmp_path, key[1]) for key in first} == first
    assert first["seed", 9].found == (tmp_path / "a.py", tmp_path / "b.py")
    assert first["seed", 1].found is None


def test_a_file_that_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    assert not Mentions().may_export(tmp_path / "missing.py", "seed")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes among its files")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "main.py").write_text("import seed\n")
    search = Mentions().scripts(tmp_path)
    assert search is not None
    assert search.found == (tmp_path / "main.py",)


def test_of_a_notebook_the_code_counts_and_not_what_it_has_shown(tmp_path: Path) -> None:
    shown = {"output_type": "stream", "name": "stdout", "text": ["shown 3\n"]}
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [shown], "source": "x = 1\ndraw(x)"}]
    path = tmp_path / "fit.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    (tmp_path / "broken.ipynb").write_text("{draw")
    assert mentions(path, "draw")
    assert not mentions(path, "shown")
    assert Mentions().of("draw", tmp_path, at_most=3).found == (path,)
