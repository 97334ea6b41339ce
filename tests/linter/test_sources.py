"""Bytes → text → tree, and the places of nodes as users count them."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path

import pytest

from detlint.findings import Location
from detlint.linter.source.nodes import walk
from detlint.linter.source.parsing import parse_expression
from detlint.linter.source.sources import SourceFile, SourceProblem, read_source, source_from_bytes


def source(data: bytes | str, name: str = "a.py") -> SourceFile:
    raw = data.encode() if isinstance(data, str) else data
    found = source_from_bytes(raw, Path("/project") / name, name)
    assert isinstance(found, SourceFile)
    return found


def problem(data: bytes | str) -> SourceProblem:
    raw = data.encode() if isinstance(data, str) else data
    found = source_from_bytes(raw, Path("/project/a.py"), "a.py")
    if isinstance(found, SourceFile):
        tree = found.tree()
        assert isinstance(tree, SourceProblem)
        return tree
    return found


@pytest.mark.parametrize(
    ("raw", "text", "encoding"),
    [
        pytest.param(b"", "", "utf-8", id="empty"),
        pytest.param("x = 'é'\n".encode(), "x = 'é'\n", "utf-8", id="utf-8 is the default"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8-sig", id="byte order mark"),
        pytest.param(b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n", "iso-8859-1", id="cookie"),
        pytest.param(
            b"#!/usr/bin/python\n# -*- coding: cp1252 -*-\nx = '\x80'\n",
            "#!/usr/bin/python\n# -*- coding: cp1252 -*-\nx = '€'\n",
            "cp1252",
            id="cookie in line 2",
        ),
        pytest.param(
            "x = 1\ny = 2\n# coding: latin-1\nz = 'é'\n".encode(),
            "x = 1\ny = 2\n# coding: latin-1\nz = 'é'\n",
            "utf-8",
            id="line 3 holds no cookie",
        ),
        pytest.param(b"a = 1\r\nb = 2\rc = 3\n", "a = 1\nb = 2\nc = 3\n", "utf-8", id="line endings"),
    ],
)
def test_decoding(raw: bytes, text: str, encoding: str) -> None:
    found = source(raw)
    assert (found.text, found.encoding) == (text, encoding)
    assert isinstance(found.tree(), ast.Module)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = f(1)\n", (1, 5, 1, 9), id="ascii"),
        pytest.param("é = f(1)\n", (1, 5, 1, 9), id="two bytes before it"),
        pytest.param("'🎲', f('é')\n", (1, 6, 1, 12), id="four bytes before it, two within"),
        pytest.param("if x:\n\tf(\n\t\t1,\n\t)\n", (2, 2, 4, 3), id="tabs count one"),
        pytest.param("a = 1\n\x0c\nf(2)\n", (3, 1, 3, 5), id="a form feed ends no line"),
        pytest.param("a = '\u2028'\nf(2)\n", (2, 1, 2, 5), id="nor does a line separator"),
        pytest.param("a = 1\rb = 2\r\nf(2)\r", (3, 1, 3, 5), id="carriage returns end lines"),
        pytest.param("x = '''\né''', f(1)\n", (2, 7, 2, 11), id="after a string over two lines"),
    ],
)
def test_location_of_a_call(text: str, expected: tuple[int, int, int, int]) -> None:
    found = source(text)
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert found.location(call) == Location("a.py", *expected)
    assert found.lines[expected[0] - 1][expected[1] - 1] == "f"


def test_location_of_a_module_is_the_start_of_the_file() -> None:
    found = source("x = 1\n")
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    assert found.location(tree) == Location("a.py", 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        pytest.param("x = (\n", (1, 5), "'(' was never closed", id="syntax"),
        pytest.param("é = 1\nß = = 2\n", (2, 5), "invalid syntax", id="columns are characters"),
        pytest.param("def f():\nreturn 1\n", (2, 1), "expected an indented block", id="indentation"),
        pytest.param("if x:\n\ty\n        z\n", None, "inconsistent use of tabs", id="tabs and blanks"),
        pytest.param("x = 1\ny = '\0'\n", (2, 6), "null byte", id="null byte"),
        pytest.param(b"x = 1\n# caf\xe9\n", (2, 6), "byte 0xe9 is not valid utf-8", id="undecodable"),
        pytest.param("ä\n".encode() + b"\xff\n", (2, 1), "byte 0xff is not valid utf-8", id="undecodable, later"),
        pytest.param(b"# coding: ascii\nx = '\xe9'\n", (2, 6), "byte 0xe9 is not valid ascii", id="cookie lies"),
        pytest.param(b"# coding: klingon\n", (1, 1), "unknown encoding: klingon", id="unknown cookie"),
        pytest.param(b"# coding: hex\n", (1, 1), "'hex' is not a text encoding", id="cookie of no text"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\n", (1, 1), "cannot be decoded", id="mark against cookie"),
        pytest.param("x = 1\n".encode("utf-16"), (1, 1), "byte 0xff is not valid utf-8", id="utf-16"),
        pytest.param("x = " + "(" * 5000 + ")" * 5000, None, "too deeply nested", id="5,000 parentheses"),
        pytest.param("".join(" " * i + "if x:\n" for i in range(300)), None, "too deeply nested", id="300 blocks"),
        pytest.param("print 'x'\n", (1, 1), "Python 2 syntax", id="Python 2 print"),
        pytest.param("exec 'x' in d\n", None, "Python 2 syntax", id="Python 2 exec"),
        pytest.param("try:\n    x\nexcept E, e:\n    pass\n", (3, 8), "Python 2 syntax", id="Python 2 except"),
        pytest.param(
            "try:\n    x\nexcept ValueError, TypeError:\n    pass\n",
            None,
            "came with 3.14",
            id="two exceptions",
            marks=pytest.mark.skipif(sys.version_info >= (3, 14), reason="is Python here"),
        ),
        pytest.param("raise E, 'no'\n", None, "Python 2 syntax", id="Python 2 raise"),
        pytest.param("x = 0777\n", None, "Python 2 syntax", id="Python 2 octal"),
        pytest.param("x = `y`\n", None, "Python 2 syntax", id="Python 2 backticks"),
        pytest.param(
            "x = 1\n<<<<<<< HEAD\ny = 1\n=======\ny = 2\n>>>>>>> b\n", (2, 1), "merge-conflict marker", id="merge"
        ),
        pytest.param(
            "x = f(\n<<<<<<< HEAD\n  1,\n=======\n  2,\n>>>>>>> b\n)\n",
            (2, 1),
            "merge-conflict marker",
            id="merge inside brackets",
        ),
        pytest.param("x = = 2  # <<<<<<< HEAD\n", (1, 5), "invalid syntax", id="no marker at the line's start"),
    ],
)
def test_what_cannot_be_parsed_is_a_problem(data: bytes | str, place: tuple[int, int] | None, reason: str) -> None:
    found = problem(data)
    assert reason in found.reason
    assert "\n" not in found.reason
    if place is not None:
        assert (found.location.line, found.location.column) == place


@pytest.mark.parametrize("depth", [5_000, 100_000])
@pytest.mark.parametrize(
    ("start", "again", "end"),
    [
        pytest.param("", "-", "1", id="signs"),
        pytest.param("a", ".b", "", id="attributes"),
        pytest.param("a", "()", "", id="calls"),
        pytest.param("1", " + 1", "", id="summands"),
        pytest.param("", "lambda: ", "1", id="lambdas"),
        pytest.param("1", " if 1 else 1", "", id="conditions"),
    ],
)
def test_deep_nesting_is_parsed_or_a_problem(start: str, again: str, end: str, depth: int) -> None:
    """Which of the two depends on the release of Python."""
    tree = source(f"x = {start}{again * depth}{end}\n").tree()
    if isinstance(tree, SourceProblem):
        assert tree.reason == "too deeply nested to be parsed"
        assert (tree.location.line, tree.location.column) == (1, 1)


@pytest.mark.parametrize(
    ("text", "since"),
    [
        pytest.param("try:\n    x\nexcept* E:\n    pass\n", (3, 11), id="exception groups"),
        pytest.param("x = a[1, *b]\n", (3, 11), id="star in an index"),
        pytest.param("type X = list[int]\n", (3, 12), id="type alias"),
        pytest.param("def f[T](x: T) -> T:\n    return x\n", (3, 12), id="generic function"),
        pytest.param("class A[T]:\n    pass\n", (3, 12), id="generic class"),
        pytest.param("x = f'{d['a']}'\n", (3, 12), id="f-string with its own quotes"),
        pytest.param("x = f'{a + \"\\n\"}'\n", (3, 12), id="backslash in an f-string"),
        pytest.param("x = f'loss {\nloss:.2f}, step {step}'\n", (3, 12), id="f-string over two lines"),
        pytest.param("x = t'{a}'\n", (3, 14), id="template string"),
    ],
)
def test_newer_syntax_is_said_to_be_newer(text: str, since: tuple[int, int]) -> None:
    if sys.version_info >= since:
        assert isinstance(source(text).tree(), ast.Module)
    else:
        assert problem(text).reason.startswith("valid for a newer Python than the running")
        assert f"came with {since[0]}.{since[1]}" in problem(text).reason


def test_no_warning_reaches_the_user(capfd: pytest.CaptureFixture[str]) -> None:
    text = "x = '\\d'\ny = 1if x else 2\nassert (x, 'always')\nz = x is 1\n"
    assert isinstance(source(text).tree(), ast.Module)
    assert isinstance(problem(text + "(\n"), SourceProblem)
    assert capfd.readouterr() == ("", "")


def test_each_tree_is_new() -> None:
    found = source("x = 1\n")
    assert found.tree() is not found.tree()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "x.py"
    folder.mkdir()
    gone = read_source(tmp_path / "gone.py", "gone.py")
    assert gone == SourceProblem(
        tmp_path / "gone.py", Location("gone.py", 1, 1, 1, 1), "cannot be read: No such file or directory"
    )
    listed = read_source(folder, "x.py")
    assert isinstance(listed, SourceProblem)
    assert "folder" in listed.reason


def test_ten_megabytes_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    path.write_bytes(b"x = [\n" + b"    0.5,\n" * 1_200_000 + b"]\n")
    found = read_source(path, "big.py")
    assert isinstance(found, SourceProblem)
    assert found.reason.startswith("too large: 10.3 MiB")


@pytest.mark.parametrize("name", sorted(path.name for path in Path(ast.__file__).parent.glob("[a-d]*.py")))
def test_locations_of_the_standard_library_agree_with_its_text(name: str) -> None:
    found = read_source(Path(ast.__file__).with_name(name), name)
    assert isinstance(found, SourceFile)
    tree = found.tree()
    assert isinstance(tree, ast.Module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            place = found.location(node)
            assert found.lines[place.line - 1][place.column - 1 : place.end_column - 1] == node.id


@pytest.mark.parametrize("text", ["Literal['\\d']", "list[", "\ud800", "\0", "-" * 100_000 + "1"])
def test_what_is_quoted_is_parsed_without_a_word(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = parse_expression(text)
    assert (found is not None) == text.startswith("Literal")


class Interpolation(ast.expr):
    """The node that Python 3.14 makes of `{name}` in a t-string."""

    _fields = ("value", "str", "conversion", "format_spec")


def test_the_text_of_an_interpolation_is_no_node() -> None:
    name = ast.Name("name", ast.Load())
    node = Interpolation(value=name, str="name", conversion=-1, format_spec=None)
    assert list(walk(node)) == [node, name]
