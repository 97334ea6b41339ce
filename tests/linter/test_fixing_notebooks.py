"""Fixing a notebook changes lines of a cell, and nothing of the document around them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.linter.fixes import DROPOUT, MENDED, fix, fixes

CELL = ["%matplotlib inline\n", "import os\n", "names = os.listdir('.')\n", "!ls\n", "first = names[0]"]
NOTEBOOK = {
    "metadata": {"z": 1, "a": [1.50, 1e3]},
    "cells": [
        {"cell_type": "markdown", "source": ["é\n", "# os.listdir('.')"], "metadata": {}},
        {"outputs": [{"text": ["os.listdir('.')\n"]}], "source": CELL, "cell_type": "code", "metadata": {"x": []}},
        {"cell_type": "code", "source": "".join(CELL), "metadata": {}, "outputs": [], "execution_count": None},
    ],
    "nbformat": 4,
    "nbformat_minor": 5,
}
LAYOUTS = {
    "as Jupyter": {"indent": 1, "ensure_ascii": False},
    "tabs and escapes": {"indent": "\t"},
    "in one line": {"separators": (",", ":")},
    "deep": {"indent": 4, "sort_keys": True},
}


@pytest.mark.parametrize("end", ["\n", "", "\r\n\n"], ids=repr)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_only_the_cell_s_line_changes_in_a_notebook(tmp_path: Path, layout: dict[str, object], end: str) -> None:
    text = json.dumps(NOTEBOOK, **layout) + end  # type: ignore[arg-type]
    path = tmp_path / "x.ipynb"
    path.write_bytes(text.encode())
    expected = text.replace("names = os.listdir('.')", "names = sorted(os.listdir('.'))")
    assert fix(path) == expected.encode()
    assert fixes(path) == []


def test_added_lines_of_a_notebook_are_laid_out_as_the_others(tmp_path: Path) -> None:
    code = "import torch\nfrom torchvision import models\nnet = models.resnet50(weights='DEFAULT')\n"
    code += "with torch.no_grad():\n    print(net(torch.zeros(1, 3, 224, 224)))"
    document = {"cells": [{"cell_type": "code", "metadata": {}, "source": code.splitlines(keepends=True)}]}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(document, indent=2))
    lines = code.splitlines(keepends=True)
    lines.insert(3, "net.eval()\n")
    document["cells"][0]["source"] = lines
    assert fix(path).decode() == json.dumps(document, indent=2)


@pytest.mark.parametrize("margin", ["    ", "\t"], ids=repr)
@pytest.mark.parametrize("head", ["", "\n", "%%time\n"], ids=repr)
def test_lines_added_to_a_cell_that_is_indented_as_a_whole_are_as_well(tmp_path: Path, head: str, margin: str) -> None:
    path = tmp_path / "x.ipynb"

    def written(code: str) -> str:
        source = head + textwrap.indent(code, margin)
        return json.dumps({"cells": [{"cell_type": "code", "metadata": {}, "source": source}]})

    for before, after in (
        (DROPOUT, MENDED),
        ("import torch\n\nprint(torch.rand(2))\n", "import torch\n\ntorch.manual_seed(0)\nprint(torch.rand(2))\n"),
    ):
        path.write_text(written(before.lstrip()))
        assert fix(path).decode() == written(after.lstrip())
        assert fixes(path) == []


def test_a_string_per_notebook_of_format_three(tmp_path: Path) -> None:
    document = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "language": "python", "input": CELL}]}]}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(document))
    assert json.loads(fix(path))["worksheets"][0]["cells"][0]["input"][2] == "names = sorted(os.listdir('.'))\n"
