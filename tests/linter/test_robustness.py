"""Any input ends in findings or DET001; one bad file never stops the run (DESIGN 7)."""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths, lint_stdin
from detlint.linter.result import LintResult
from detlint.linter.source.lexing import comments
from detlint.settings import Settings

GOOD = "import torch.nn.functional as F\n\n\ndef forward(self, x):\n    return F.dropout(x, 0.1)\n"
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
STANDARD_LIBRARY = sorted(Path(os.__file__).parent.glob("*.py"))


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})


# A file's content, and the place of its DET001 finding with a part of its message (None: there is none).
BAD: dict[str, tuple[bytes | str, tuple[int, int | None, str] | None]] = {
    "bytes.py": (GOOD.encode() + b"# \xe9\n", (6, 3, "byte 0xe9 is not valid utf-8")),
    "cp1252.py": (b"# coding: cp1252\nx = '\x81'\n", (2, 6, "byte 0x81 is not valid cp1252")),
    "huge.py": (
        f"import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n"
        f"        self.assertEqual(f() * 0.5, 1{'0' * 400} * 0.1)\n"
        f"        self.assertAlmostEqual(f(), 1, places={'9' * 400})\n",
        None,
    ),
    "circular_options.py": (
        "from sklearn.model_selection import train_test_split\n\n"
        "def f():\n    return g()\n\ndef g():\n    return f()\n\n"
        "train_test_split(rows, **f())\n"
        "while True:\n    options = options['next']\n    train_test_split(rows, **options)\n"
        "class Split:\n    def run(self):\n        self.options = self.options['next']\n"
        "        return train_test_split(rows, **self.options)\n",
        None,
    ),
    "circular_choice.py": (
        "import torch\n\n"
        "def unwrap(model):\n    while hasattr(model, 'module'):\n"
        "        model = model.module if hasattr(model, 'module') else model\n    return model\n\n"
        "def main():\n    model = torch.nn.Dropout()\n    averaged = torch.nn.Dropout()\n"
        "    for epoch in range(3):\n        model = averaged if epoch else model\n"
        "        with torch.no_grad():\n            print(model(torch.ones(2)))\n",
        None,
    ),
    "circular_helper.py": (
        "import torch\n\ndef gap(a, b):\n    return gap(a, b)\n\n"
        "def test_gap():\n    assert gap(torch.ones(2), torch.zeros(2)) < 1e-9\n",
        None,
    ),
    "circular_names.py": (
        "import torch\n\n"
        "def test_steps(rows):\n    while rows:\n        left = left['next']\n        right = right['next']\n"
        "    assert torch.equal(left, right)\n\n"
        "def names(count):\n    while count:\n        kept = kept & known\n        known = known - kept\n"
        "    return list(kept & known)\n",
        None,
    ),
    "null.py": ("x = 1\n\0\n", (2, 1, "null byte")),
    "utf16.py": (GOOD.encode("utf-16"), (1, 1, "byte 0xff")),
    "cookie.py": ("# -*- coding: klingon -*-\n", (1, 1, "unknown encoding")),
    "big.py": (b"x = 1\n" * 1_750_000, (1, 1, "too large: 10.0 MiB")),
    "parentheses.py": ("x = " + "(" * 5000 + ")" * 5000, (1, None, "too deeply nested")),
    "blocks.py": ("".join(" " * i + "if x:\n" for i in range(1000)), (101, None, "too deeply nested")),
    "notebook.ipynb": ('{"cells": [', (1, 1, "malformed notebook")),
    "script.ipynb": (GOOD, (1, 1, "malformed notebook")),
    "deep.ipynb": ("[" * 100_000, (1, 1, "malformed notebook")),
    "python2.py": ("print 'x'\n", (1, 1, "Python 2 syntax")),
    "conflict.py": ("<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n", (1, 1, "merge-conflict marker")),
    "empty.py": ("", None),
    "blank.py": ("\n\f\n\t\n", None),
    "empty.ipynb": ("", None),
    "mark.py": (b"\xef\xbb\xbf", None),
    "carriage.py": ("x = 1\ry = 2\r", None),
    "latin.py": ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), None),
    "nested.py": ("x = " + "-" * 900 + "1\ny = a" + ".b" * 900 + "\nz = f" + "(1)" * 900 + "\n", None),
    "summands.py": ("x = " + " + ".join(["a"] * 900) + "\n", None),
    "long_line.py": ("x = [" + "1, " * 100_000 + "]\n", None),
    "long_print.py": ("print " + "a, " * 300_000 + "\n", (1, None, "Python 2 syntax")),
    "long_fstring.py": ("x = f'" + "{'" * 300_000 + "\n", (1, None, "")),
    "surrogate.py": ("x = '\\ud800'\n", None),
    "annotation.py": ("def f(x: '\\ud800', y: '\\0'):\n    return [set(x), x.median(0), y.median(0)]\n", None),
}

# Whether these are too deep depends on the release of Python.
DEEP = {
    "deep_attributes.py": "x = a" + ".b" * 5000 + "\n",
    "deep_calls.py": "x = torch.f" + "(1)" * 5000 + "\n",
    "deep_signs.py": "x = " + "-" * 5000 + "1\n",
    "deep_summands.py": "x = 1" + " + 1" * 5000 + "\n",
    "deep_else_ifs.py": "if x: pass\n" + "elif x: pass\n" * 5000,
}


def lint(folder: Path, jobs: int = 1) -> LintResult:
    return lint_paths([str(folder)], resolver=ConfigResolver(isolated=True), jobs=jobs)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    for name, (data, _) in BAD.items():
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    for name, text in {**DEEP, "good.py": GOOD}.items():
        (folder / name).write_text(text)
    (folder / "module.py").mkdir()
    (folder / "module.py" / "inside.py").write_text(GOOD)
    (folder / "loop").symlink_to(".")
    (folder / "link.py").symlink_to("link.py")
    return folder


@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_files_do_not_stop_the_run(bad_files: Path, jobs: int, capfd: pytest.CaptureFixture[str]) -> None:
    result = lint(bad_files, jobs)
    assert result.problems == ()
    assert capfd.readouterr() == ("", "")
    places = {Path(f.location.path).relative_to(bad_files).as_posix(): f for f in result.findings if f.code == "DET001"}
    expected = {name: said for name, (_, said) in BAD.items() if said is not None}
    expected["link.py"] = (1, 1, "cannot be read: Too many levels of symbolic links")
    for name in DEEP:
        assert name not in places or "too deeply nested" in places.pop(name).message
    assert sorted(places) == sorted(expected)
    for name, (line, column, reason) in expected.items():
        assert reason in places[name].message
        assert places[name].location.line == line
        assert column in (None, places[name].location.column)
    found = {Path(f.location.path).relative_to(bad_files).as_posix() for f in result.findings if f.code == "DET202"}
    assert found == {"good.py", "module.py/inside.py"}


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder for a test that runs as nobody: root may read everything."""
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        first = Path(name, "first.py")
        first.write_text(GOOD)
        lint(first)  # nobody may not load what linting imports
        first.unlink()
        Path(name).chmod(0o777)
        if before == 0:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            os.seteuid(before)


def test_what_may_not_be_read_is_reported(unprivileged_folder: Path) -> None:
    folder = unprivileged_folder
    for name in ("secret.py", "closed/inside.py", "listed/inside.py", "good.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(GOOD)
    (folder / "secret.py").chmod(0)
    (folder / "closed").chmod(0)
    (folder / "listed").chmod(0o444)
    try:
        result = lint(folder)
    finally:
        (folder / "closed").chmod(0o755)
        (folder / "listed").chmod(0o755)
    denied = "not checked: cannot be read: Permission denied"
    found = {Path(f.location.path).relative_to(folder).as_posix(): f.message for f in result.findings}
    assert found.pop("good.py") != denied
    assert found == dict.fromkeys(["closed", "listed/inside.py", "secret.py"], denied)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_what_may_not_be_looked_into_stops_nothing(unprivileged_folder: Path, mode: int) -> None:
    folder = unprivileged_folder
    (folder / ".git").mkdir()
    (folder / "locked").mkdir()
    (folder / "locked" / "inside.py").write_text(GOOD)
    (folder / "t.py").write_text(f"import locked.inside\nimport {'a' * 300}\n{GOOD}")
    (folder / "locked").chmod(mode)
    try:
        result = lint_paths([str(folder)], resolver=ConfigResolver(), jobs=1)
    finally:
        (folder / "locked").chmod(0o755)
    assert result.problems == ()
    codes = {Path(f.location.path).relative_to(folder).as_posix(): f.code for f in result.findings}
    assert codes == {"t.py": "DET202", "locked" if mode == 0 else "locked/inside.py": "DET001"}


def test_a_deep_expression_in_an_imported_file_is_nothing_special(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "helper.py").write_text("x = {}\na = x" + "[0]" * 1200 + "\n")
    program = "from helper import *\nimport torch\n\nif __name__ == '__main__':\n    print(torch.rand(3))\n"
    (tmp_path / "main.py").write_text(program)
    for result in (lint(tmp_path / "main.py"), lint(tmp_path)):
        assert result.problems == ()
        assert [(Path(f.location.path).name, f.code) for f in result.findings] == [("main.py", "DET101")]


@pytest.mark.parametrize("names", [("a.py", "b.py"), ("b.py", "a.py")], ids=["asked-first", "asked-later"])
def test_a_broken_file_that_another_one_asks_about_is_reported_too(tmp_path: Path, names: tuple[str, str]) -> None:
    program, broken = names
    module = broken.removesuffix(".py")
    (tmp_path / program).write_text(
        f"import torch\nfrom {module} import f\ntorch.manual_seed(0)\nprint(f(torch.rand(3)))\n"
    )
    (tmp_path / broken).write_text("import torch\ndef f(x):\n<<<<<<< HEAD\n    return x\n")
    result = lint(tmp_path)
    assert [(f.code, Path(f.location.path).name) for f in result.findings if f.code == "DET001"] == [("DET001", broken)]


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    doomed = tmp_path / "b.py"
    doomed.write_text(GOOD)

    def after_each(done: int, total: int) -> None:
        doomed.unlink(missing_ok=True)

    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(isolated=True), jobs=1, progress=after_each)
    assert [(f.code, Path(f.location.path).name) for f in result.findings] == [("DET202", "a.py"), ("DET001", "b.py")]
    assert result.findings[1].message.endswith("cannot be read: No such file or directory")


def check_stdin(raw: bytes, name: str) -> None:
    result = lint_stdin(raw, name, resolver=ConfigResolver(isolated=True))
    assert result.problems == ()
    for finding in result.findings:
        assert finding.location.line >= 1
        assert finding.location.column >= 1
        assert "\n" not in finding.message


@FUZZ
@given(st.binary(max_size=400))
def test_random_bytes(raw: bytes) -> None:
    check_stdin(raw, "a.py")
    check_stdin(raw, "a.ipynb")


DIRECTIVES = ["# detlint: ", "ignore", "disable", "enable", "skip-file", "[", "]", "DET201", "DET2", ",", "noqa", ":"]
PYTHON = [
    "# ",
    "'",
    '"""',
    "x = 1",
    "(",
    ")",
    "if x:\n    ",
    "@d\n",
    "def f(a):",
    "match x:\n case 1:",
    "lambda",
    "class A:",
]
MAGICS = ["%", "%%bash", "!ls", "?", "pip install"]
CHARACTERS = [" ", "\n", "\t", "\f", "\r", "\\\n", "é", "\ud800", "\0", ";"]
WORDS = st.lists(st.sampled_from([*DIRECTIVES, *PYTHON, *MAGICS, *CHARACTERS]), max_size=25).map("".join)


@FUZZ
@given(WORDS)
def test_random_words(text: str) -> None:
    check_stdin(text.encode("utf-8", "surrogatepass"), "a.py")
    check_stdin(notebook(text, text[: len(text) // 2]).encode(), "a.ipynb")


@FUZZ
@given(st.randoms(use_true_random=False))
def test_truncated_and_damaged_files(chance: random.Random) -> None:
    raw = chance.choice(STANDARD_LIBRARY).read_bytes()[:20_000]
    start = chance.randrange(len(raw) or 1)
    raw = raw[start : start + chance.randrange(2000)]
    damaged = bytearray(raw)
    for _ in range(chance.randrange(3)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    check_stdin(bytes(damaged), "a.py")


def _damage(value: object, chance: random.Random) -> object:
    """Return JSON in which now and then a value is one of another kind."""
    if chance.random() < 0.08:
        return chance.choice([None, 3, "x = (", [], {}, True, -1.5, ["a", 1], "%%time\nx", {"cells": 3}])
    if isinstance(value, dict):
        return {key: _damage(item, chance) for key, item in value.items() if chance.random() > 0.05}
    if isinstance(value, list):
        return [_damage(item, chance) for item in value]
    return value


@FUZZ
@given(st.randoms(use_true_random=False))
def test_mutated_notebooks(chance: random.Random) -> None:
    document = {
        "metadata": {"language_info": {"name": "python"}, "kernelspec": {"language": "python"}},
        "nbformat": 4,
        "cells": [
            {"cell_type": "markdown", "source": ["# title"]},
            {"cell_type": "code", "metadata": {"vscode": {"languageId": "python"}}, "source": ["%time\n", GOOD]},
            {"cell_type": "code", "metadata": {}, "source": "x = !ls\ny?\n"},
        ],
        "worksheets": [{"cells": [{"cell_type": "code", "language": "python", "input": ["x"]}]}],
    }
    if chance.random() < 0.5:
        del document["worksheets"]
    raw = json.dumps(_damage(document, chance)).encode()
    if chance.random() < 0.3:
        raw = raw[: chance.randrange(len(raw))]
    check_stdin(raw, "a.ipynb")


@pytest.mark.parametrize("path", STANDARD_LIBRARY, ids=lambda path: path.name)
def test_comments_are_those_that_tokenize_finds(path: Path) -> None:
    with tokenize.open(path) as stream:
        text = stream.read()
    lines = [0]
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    expected = [
        lines[token.start[0] - 1] + token.start[1]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    assert [start for start, _ in comments(text)] == expected


# Code that is valid and that hardly anybody writes: empty tuples as indices, calls without the argument that matters.
ODD = {
    "pattern out of a call": "import glob\nfrom settings import pattern\nx = [load(p) for p in glob.glob(pattern())]\n",
    "pattern of nothing": "import glob, os\nx = [load(p) for p in glob.glob(os.path.join())]\n",
    "order, empty index": "import os\nimport numpy as np\nx = np.array(os.listdir(d))[()]\n",
    "sum by keyword": "import os\nx = sum(start=os.listdir(d))\n",
    "parameters of a lambda": (
        "import os\ndef load(paths, key=lambda name: name, **options):\n    return [options, paths]\n"
        "x = load([], name=os.listdir(d))\n"
    ),
    "memory, empty index": (
        "import torch\ndef f(x, n):\n    out = torch.empty(5)\n    for i in range(n):\n        out[()] = x[i]\n"
        "    return out + 1\n"
    ),
    "batches, empty index": (
        "import torch\ndef f(x, size):\n    out = torch.empty(len(x), 4)\n    for i in range(len(x) // size):\n"
        "        out[()] = x[i]\n    return out + 1\n"
    ),
    # Each of eight returns calls the function again: followed all the way, they would be 8 ** 12 calls.
    "a function that calls itself in each return": (
        "import torch\ndef plain(x):\n"
        + "".join(f"    if isinstance(x, T{n}):\n        return plain(x.part{n})\n" for n in range(8))
        + "    return x\ndef test_plain(x):\n    assert plain(x) == torch.exp(x)\n"
        + "    assert torch.equal(plain(x), plain(x + 1))\n"
    ),
    "memory, step zero": "import torch\ndef f(x):\n    out = torch.empty(5, 3)\n    out[::0] = x\n    return out + 1\n",
    "memory, endless": (
        f"import torch\ndef f(x):\n    out = torch.empty({10**30})\n    out[:{10**29}] = x\n    return out + 1\n"
    ),
    "starred option": (
        "import argparse, torch\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--how', nargs='*', default=[])\nargs = parser.parse_args()\n*rest, = args.how\n"
        "net = torch.compile(torch.nn.Linear(3, 3), mode=rest)\n"
    ),
    "called setting": "import torch\ntorch._inductor.config.max_autotune()\n",
    "greater than floats": (
        "def score(net, x):\n    return net(x).sum().item()\n"
        f"def test_score(net, x):\n    assert score(net, x) == {10**400} * 2.0 / 3.0\n"
        "def test_other(net, x):\n    assert score(net, x) == 1e308 * 10.0 / 3.0\n"
    ),
    "rate of functions that call each other": (
        "import torch.nn.functional as F\ndef attend(q, p):\n    return chunk(q, p)\ndef chunk(q, p):\n"
        "    if len(q) > 5:\n        return attend(q[1:], p)\n"
        "    return F.scaled_dot_product_attention(q, q, q, dropout_p=p)\n"
    ),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_code(text: str) -> None:
    resolver = ConfigResolver(isolated=True, overrides=Settings(select=("ALL",)))
    result = lint_stdin(text.encode(), "a.py", resolver=resolver)
    assert result.problems == ()
    assert "DET001" not in {finding.code for finding in result.findings}
