"""Notebooks as one program: which cells count, what becomes of magics, and where findings are said to be."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.findings import Location
from detlint.linter.engine import lint_stdin
from detlint.linter.source.sources import SourceFile, SourceProblem, source_from_bytes


def notebook(*cells: str | dict[str, object], metadata: object = None, **more: object) -> bytes:
    full = [{"cell_type": "code", "source": cell} if isinstance(cell, str) else cell for cell in cells]
    return json.dumps({"cells": full, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5, **more}).encode()


def read(raw: bytes) -> SourceFile:
    found = source_from_bytes(raw, Path("/project/a.ipynb"), "a.ipynb")
    assert isinstance(found, SourceFile)
    assert isinstance(found.tree(), ast.Module)
    return found


def test_cells_become_one_program_and_places_name_the_cell() -> None:
    found = read(
        notebook(
            {"cell_type": "markdown", "source": ["# title"]},
            {"cell_type": "code", "source": ["import torch\n", "a = torch.zeros(3)"]},
            {"cell_type": "raw", "source": "f(0)"},
            "",
            "b = 'é', g(a)\n",
        )
    )
    assert found.is_notebook
    assert found.problems == ()
    assert [cell.number for cell in found.cells] == [2, 4, 5]
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    zeros, call = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert found.location(zeros) == Location("a.ipynb", 2, 5, 2, 19, cell=2)
    assert found.location(call) == Location("a.ipynb", 1, 10, 1, 14, cell=5)
    assert str(found.location(call)) == "a.ipynb:cell 5:1:10"
    for node in (zeros, call):
        assert found.line_of(found.location(node)) == node.lineno


@pytest.mark.parametrize(
    ("cell", "program"),
    [
        pytest.param("%matplotlib inline\nx = 1", "pass\nx = 1", id="line magic"),
        pytest.param("if x:\n    %cd a\n    !ls -l\ny", "if x:\n    pass\n    pass\ny", id="indented"),
        pytest.param("!pip install 'a\nx = 1", "pass\nx = 1", id="shell command with an apostrophe"),
        pytest.param("!a \\\n  b \\\n  c\nx = 1", "pass\n\n\nx = 1", id="shell command over three lines"),
        pytest.param("files = !ls\nx = %pwd", "files = get_ipython()\nx = get_ipython()", id="assigned"),
        pytest.param(
            "a[0] = !ls\na.b = !ls\n_=!ls", "a[0] = get_ipython()\na.b = get_ipython()\n_=get_ipython()", id="targets"
        ),
        pytest.param("/f x\n,f x\n;f x\n!!ls", "pass\npass\npass\npass", id="other signs"),
        pytest.param("?torch.zeros\ntorch.zeros??\n%time?\nx?", "pass\npass\npass\npass", id="help"),
        pytest.param("%%time\nx = 1", "pass\nx = 1", id="python cell magic"),
        pytest.param("\n%%capture out\nx = 1", "\npass\nx = 1", id="python cell magic after a blank line"),
        pytest.param("%%bash\nfor f in *; do\n  x = = \ndone", "\n\n\n", id="other cell magic"),
        pytest.param("%%writefile a.py\nimport torch\n", "\n\n", id="file written, not run"),
        pytest.param("pip install torch\ncd data\nx = 1", "pass\npass\nx = 1", id="commands without a sign"),
        pytest.param("  x = 1\n  y = 2", "x = 1\ny = 2", id="indented as a whole"),
        pytest.param("\n\tif x:\n\n\t\ty\n", "\nif x:\n\n\ty\n", id="indented by a tab, after a blank line"),
        pytest.param("  x = '''\na\n  b\n'''\n  !ls", "x = '''\na\nb\n'''\npass", id="indented, a string is not"),
        pytest.param("%%time\n  x = 1\n  y = 2", "pass\nx = 1\ny = 2", id="python cell magic, indented below it"),
        pytest.param("  %%time\n    x = 1", "pass\nx = 1", id="indented cell magic, indented again below it"),
        pytest.param("await f()", "await f()", id="await at the top"),
    ],
)
def test_magics_become_neutral_code_of_as_many_lines(cell: str, program: str) -> None:
    found = read(notebook(cell))
    assert found.text == program
    assert found.problems == ()
    assert found.text.count("\n") == cell.count("\n")


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("x = (a\n % b)", id="modulo in brackets"),
        pytest.param("s = '''\n%d\n!x\n%%bash\n''' % 3", id="inside a string"),
        pytest.param("x = a \\\n % b", id="modulo after a backslash"),
        pytest.param("s = f('((', \"[\",\n a\n % 3)", id="brackets inside strings"),
        pytest.param("# it's\nx = 1  # %\n", id="comments"),
        pytest.param("cat = 1\nls, cd = 1, 2\nrm in (cat, ls)\ncat\npip.main()", id="names like commands"),
        pytest.param("x = a != b\nx == a\nx %= 2", id="comparison"),
    ],
)
def test_python_is_left_alone(cell: str) -> None:
    assert read(notebook(cell)).text == cell


@pytest.mark.parametrize(
    ("cell", "line", "columns"),
    [
        pytest.param("    x = f(1)", 1, (9, 13), id="at the margin"),
        pytest.param("    a = '''\n'''; f(1)", 2, (6, 10), id="on a line without the margin"),
        pytest.param("%%time\n  f(1)", 2, (3, 7), id="below a cell magic"),
    ],
)
def test_indented_cells_keep_their_columns(cell: str, line: int, columns: tuple[int, int]) -> None:
    found = read(notebook(cell))
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert found.location(call) == Location("a.ipynb", line, columns[0], line, columns[1], cell=1)


@pytest.mark.parametrize(
    ("cell", "columns"),
    [
        pytest.param("%time f(1)", (7, 11), id="time"),
        pytest.param("%timeit -n 10 -r3 f(1)", (19, 23), id="timeit with options"),
        pytest.param("if x:\n    %time y = f(1)", (15, 19), id="in a block"),
    ],
)
def test_what_a_line_magic_runs_is_read_at_its_place(cell: str, columns: tuple[int, int]) -> None:
    found = read(notebook(cell))
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    line = cell.count("\n") + 1
    assert found.location(call) == Location("a.ipynb", line, columns[0], line, columns[1], cell=1)


@pytest.mark.parametrize("cell", ["%time", "%timeit for i in x: f(i)", "%timeit --help", "%prun -s key f()"])
def test_a_line_magic_that_runs_no_statement_is_none(cell: str) -> None:
    assert read(notebook(cell)).text.startswith("pass")


@pytest.mark.parametrize("first", ["# a comment", "%matplotlib inline", "x = 1"])
def test_a_cell_indented_below_its_first_line_is_no_python(first: str) -> None:
    found = read(notebook(f"{first}\n    y = 2"))
    assert [problem.reason for problem in found.problems] == ["unexpected indent"]


def test_a_cell_that_does_not_parse_is_a_problem_and_the_rest_stays() -> None:
    found = read(notebook("x = 1", "y = (\nz = 2", "f(x)\n", "w = = 1"))
    assert [(p.location, p.reason) for p in found.problems] == [
        (Location("a.ipynb", 1, 5, 1, 6, cell=2), "'(' was never closed"),
        (Location("a.ipynb", 1, 5, 1, 6, cell=4), "invalid syntax"),
    ]
    assert found.text == "x = 1\n\n\nf(x)\n\n"
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    assert found.location(tree.body[1]) == Location("a.ipynb", 1, 1, 1, 5, cell=3)


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        pytest.param({"language_info": {"name": "python"}}, "x = 1", id="python"),
        pytest.param({"kernelspec": {"language": "python", "name": "python3"}}, "x = 1", id="python kernel"),
        pytest.param({"kernelspec": {"name": "python3"}}, "x = 1", id="kernel without a language"),
        pytest.param({"language_info": {"name": "R"}}, "", id="R"),
        pytest.param({"kernelspec": {"language": "julia"}}, "", id="julia"),
        pytest.param({"language_info": 3, "kernelspec": []}, "x = 1", id="metadata of the wrong kind"),
    ],
)
def test_language(metadata: object, text: str) -> None:
    assert read(notebook("x = 1", metadata=metadata)).text == text


def test_cells_in_another_language_are_left_out() -> None:
    julia = {"cell_type": "code", "source": "x <- 1", "metadata": {"vscode": {"languageId": "julia"}}}
    assert read(notebook(julia, "y = 1")).text == "y = 1"


def test_format_3() -> None:
    cells = [
        {"cell_type": "heading", "source": ["title"]},
        {"cell_type": "code", "language": "python", "input": ["x = 1\n", "!ls"]},
    ]
    raw = json.dumps({"metadata": {}, "nbformat": 3, "worksheets": [{"cells": cells}, {"cells": cells}]}).encode()
    found = read(raw)
    assert found.text == "x = 1\npass\nx = 1\npass"
    assert [cell.number for cell in found.cells] == [2, 4]


@pytest.mark.parametrize("raw", [b"", b" \n", notebook()], ids=["empty file", "blank file", "no cells"])
def test_empty_notebooks_are_fine(raw: bytes) -> None:
    found = read(raw)
    assert (found.text, found.problems) == ("", ())


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"import torch\n", "not JSON", id="a script"),
        pytest.param(b"[]", "not a JSON object", id="a list"),
        pytest.param(b"{}", "no list of cells", id="an empty object"),
        pytest.param(b'{"cells": {}}', "no list of cells", id="cells of the wrong kind"),
        pytest.param(b'{"worksheets": [3]}', "no list of cells", id="worksheet of the wrong kind"),
        pytest.param(b'{"cells": [3]}', "cell 1 is no JSON object", id="cell of the wrong kind"),
        pytest.param(notebook({"cell_type": "code", "source": 3}), "cell 1 has no text", id="number for text"),
        pytest.param(notebook("", {"cell_type": "code", "source": ["a", 3]}), "cell 2 has no text", id="mixed list"),
        pytest.param(notebook("x")[:-5], "not JSON", id="cut off"),
        pytest.param(b"[" * 100_000, "too deeply nested", id="deep"),
        pytest.param(b"\xff\xfe\x00", "not JSON", id="not text"),
        pytest.param(b'{"cells": [' + b"9" * 5000 + b"]}", "malformed notebook", id="a number too long"),
        pytest.param(notebook("<<<<<<< HEAD").replace(b'"cells"', b'<<<<<<< HEAD\n"cells"'), "not JSON", id="merge"),
    ],
)
def test_malformed_notebooks_are_problems(raw: bytes, reason: str) -> None:
    found = source_from_bytes(raw, Path("/project/a.ipynb"), "a.ipynb")
    assert isinstance(found, SourceProblem)
    assert found.reason.startswith("malformed notebook: ")
    assert reason in found.reason


def test_text_that_is_no_text_is_a_problem_of_its_cell() -> None:
    found = read(notebook("x = 1", "y = '\ud800'"))
    (lone,) = found.problems
    assert lone.location.cell == 2
    assert "surrogates" in lone.reason


FAR = "import torch\n" + "x = 1\n" * 5
MESSAGES = {
    "DET201": (
        "def g(model, x):\n    before = model.training\n    with torch.no_grad():\n        y = model(x)\n"
        "    model.train(before)\n    return y\n",
        "line 5 of cell 2 puts its mode back",
    ),
    "DET204": (
        "def g(model, x):\n    model.train()\n    with torch.no_grad():\n        return model(x)\n",
        "switched on in line 2 of cell 2",
    ),
    "DET303": ("def f():\n    out = torch.empty(3)\n    return out + 1\n", "at line 3 of cell 2"),
    "DET604": (
        "def f(x: torch.Tensor):\n    y = x.to('cpu', non_blocking=True)\n    return y.numpy()\n",
        "at line 3 of cell 2",
    ),
}


@pytest.mark.parametrize(("code", "cell", "said"), [(code, *each) for code, each in MESSAGES.items()], ids=MESSAGES)
def test_messages_name_lines_of_cells(code: str, cell: str, said: str) -> None:
    result = lint_stdin(notebook(FAR, cell), "a.ipynb", resolver=ConfigResolver(isolated=True))
    assert [finding.code for finding in result.findings] == [code]
    assert said in result.findings[0].message
