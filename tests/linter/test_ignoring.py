"""`--add-ignore`: comments where they silence each finding, and a file that means what it meant."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.linter.ignoring import ignore_paths

HEAD = "import os\nimport torch.nn.functional as F\n\n"
# body → body with comments
CASES = {
    "one line": (
        "def f(r):\n    return os.listdir(r)\n",
        "def f(r):\n    return os.listdir(r)  # detlint: ignore[DET601]\n",
    ),
    "several lines": (
        "def f(r):\n    return [\n        n\n        for n in os.listdir(r)\n    ]\n",
        "def f(r):\n    return [\n        n\n        for n in os.listdir(r)\n    ]  # detlint: ignore[DET601]\n",
    ),
    "two rules, one statement": (
        "def f(r, x):\n    return os.listdir(r), F.dropout(x)\n",
        "def f(r, x):\n    return os.listdir(r), F.dropout(x)  # detlint: ignore[DET202, DET601]\n",
    ),
    "a header": (
        "def f(r):\n    found = []\n    for n in os.listdir(r):\n        found.append(n)\n    return found\n",
        "def f(r):\n    found = []\n    for n in os.listdir(r):  # detlint: ignore[DET601]\n        found.append(n)\n"
        "    return found\n",
    ),
    "a comment there": (
        "def f(r):\n    return os.listdir(r)  # noqa: E501\n",
        "def f(r):\n    return os.listdir(r)  # noqa: E501  # detlint: ignore[DET601]\n",
    ),
    "an ignore there": (
        "def f(r, x):\n    return os.listdir(r), F.dropout(x)  # detlint: ignore[DET202] on purpose\n",
        "def f(r, x):\n    return os.listdir(r), F.dropout(x)  # detlint: ignore[DET202, DET601] on purpose\n",
    ),
    "an ignore before it": (
        "def f(r, x):\n    # detlint: ignore[DET202] on purpose\n    return os.listdir(r), F.dropout(x)\n",
        "def f(r, x):\n    # detlint: ignore[DET202, DET601] on purpose\n    return os.listdir(r), F.dropout(x)\n",
    ),
    "a text over several lines": (
        'def f(r):\n    return os.listdir(r), """a\n# b\n"""\n',
        'def f(r):\n    return os.listdir(r), """a\n# b\n"""  # detlint: ignore[DET601]\n',
    ),
    "a line that ends inside the next statement's text": (
        'def f(r):\n    a = list(os.listdir(r)); b = """x\n"""\n    return a, b\n',
        'def f(r):\n    # detlint: ignore[DET601]\n    a = list(os.listdir(r)); b = """x\n"""\n    return a, b\n',
    ),
    "backslashes": (
        "def f(r):\n    return \\\n        os.listdir(r) \\\n        + []\n",
        "def f(r):\n    return \\\n        os.listdir(r) \\\n        + []  # detlint: ignore[DET601]\n",
    ),
    "no final line end": (
        "def f(r):\n    return os.listdir(r)",
        "def f(r):\n    return os.listdir(r)  # detlint: ignore[DET601]",
    ),
    "a decorated function in one line": (
        "@staticmethod\ndef f(r): return os.listdir(r)\n",
        "@staticmethod\ndef f(r): return os.listdir(r)  # detlint: ignore[DET601]\n",
    ),
    "a decorator of a function in one line": (
        "import torch\n@torch.compile(mode='max-autotune')\ndef f(x): return x @ x\n",
        "import torch\n# detlint: ignore[DET404]\n@torch.compile(mode='max-autotune')\ndef f(x): return x @ x\n",
    ),
    "a decorator and a method in one line": (
        "import torch\nclass M:\n    @torch.compile(mode='max-autotune')\n    def f(s, r): return os.listdir(r)\n",
        "import torch\nclass M:\n    # detlint: ignore[DET404]\n    @torch.compile(mode='max-autotune')\n"
        "    def f(s, r): return os.listdir(r)  # detlint: ignore[DET601]\n",
    ),
    "a hash in a text": (
        "def f(r):\n    return os.listdir(r + '# detlint: ignore[DET202]')\n",
        "def f(r):\n    return os.listdir(r + '# detlint: ignore[DET202]')  # detlint: ignore[DET601]\n",
    ),
    "nothing found": ("def f(r):\n    return sorted(os.listdir(r))\n", None),
}


def run(path: Path) -> bytes | None:
    resolver = ConfigResolver(isolated=True)
    for each in ignore_paths([str(path)], resolver=resolver, jobs=1):
        each.write()
        return path.read_bytes()
    return None


def findings(path: Path) -> list[str]:
    found = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1).findings
    return [finding.code for finding in found]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=repr)
@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES.keys())
def test_comments(tmp_path: Path, body: str, expected: str | None, newline: str) -> None:
    path = tmp_path / "x.py"
    path.write_bytes((HEAD + body).replace("\n", newline).encode())
    after = run(path)
    assert after == (None if expected is None else (HEAD + expected).replace("\n", newline).encode())
    assert findings(path) == []
    assert ast.dump(ast.parse(path.read_bytes())) == ast.dump(ast.parse(HEAD + body))
    assert run(path) is None


def test_notebook(tmp_path: Path) -> None:
    cell = ["%cd data\n", "import os\n", "first = os.listdir('.')[0]"]
    text = json.dumps({"cells": [{"cell_type": "code", "source": cell, "outputs": [1.0], "metadata": {}}]}, indent=1)
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert findings(path) == ["DET601"]
    assert run(path) == text.replace("('.')[0]", "('.')[0]  # detlint: ignore[DET601]").encode()
    assert findings(path) == []


def test_a_comment_before_a_statement_of_an_indented_cell_is_indented_too(tmp_path: Path) -> None:
    lines = ["    import os\n", "    first = os.listdir('.')[0]; text = '''\n", "'''\n", "    print(first, text)"]
    document = {"cells": [{"cell_type": "code", "source": lines, "outputs": [], "metadata": {}}]}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(document, indent=1))
    lines.insert(1, "    # detlint: ignore[DET601]\n")
    assert run(path) == json.dumps(document, indent=1).encode()
    assert findings(path) == []


def test_what_cannot_be_ignored_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(HEAD + "def f(\n")
    assert run(path) is None
    path.write_text("x = 1  # detlint: ignore[DET601]\n")
    assert findings(path) == ["DET002"]
    assert run(path) is None
