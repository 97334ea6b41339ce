"""Arguments set by libcst: what stands around them stays as it is, to the byte."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from detlint.linter.analysis.repairs import Change, insert_before, replace, set_argument, wrap
from detlint.linter.source.sources import SourceFile, source_from_bytes


def source(code: str) -> SourceFile:
    read = source_from_bytes(code.encode(), Path("x.py"), "x.py")
    assert isinstance(read, SourceFile)
    return read


def first_call(read: SourceFile) -> ast.Call:
    tree = read.tree()
    assert isinstance(tree, ast.Module)
    return next(node for node in ast.walk(tree) if isinstance(node, ast.Call))


ARGUMENTS = {
    "none": ("f()", "f(t=1)"),
    "one": ("f(x)", "f(x, t=1)"),
    "final comma": ("f(x,)", "f(x, t=1,)"),
    "tight": ("f(x,y)", "f(x,y,t=1)"),
    "spaces inside": ("f( x )", "f( x, t=1 )"),
    "keyword there": ("f(x, t = 0)", "f(x, t = 1)"),
    "position there": ("f(x, y, 0)", "f(x, y, 1)"),
    "starred": ("f(*x)", "f(*x, t=1)"),
    "one a line": ("f(\n    x,\n    y\n)", "f(\n    x,\n    y,\n    t=1\n)"),
    "one a line, final comma": ("f(\n    x,\n    y,\n)", "f(\n    x,\n    y,\n    t=1,\n)"),
    "comment on the last": ("f(\n    x,\n    y,  # why\n)", "f(\n    x,\n    y,  # why\n    t=1,\n)"),
    "comment before the last": ("f(\n    x,  # why\n    y,\n)", "f(\n    x,  # why\n    y,\n    t=1,\n)"),
    "alone on its line": ("f(\n    x,\n)", "f(\n    x,\n    t=1,\n)"),
    "method chain": ("a.b(1).c(x)", "a.b(1).c(x, t=1)"),
    "not ASCII": ("f('ä', x)", "f('ä', x, t=1)"),
}


@pytest.mark.parametrize(("code", "expected"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_set_argument(code: str, expected: str) -> None:
    read = source(code)
    assert set_argument(first_call(read), "t", "1", position=2).text(read) == expected


def test_wrap_and_replace() -> None:
    read = source("for n in os.listdir(p): pass\n")
    call = first_call(read)
    assert wrap(call, "sorted").text(read) == "sorted(os.listdir(p))"
    assert replace(call, "[]").text(read) == "[]"


INSERTED = {
    "indented": ("if a:\n    f(x)\n", "    m.eval()\n"),
    "behind another statement": ("a = 1; f(x)\n", None),
    "on the header's line": ("if a: f(x)\n", None),
}


@pytest.mark.parametrize(("code", "expected"), INSERTED.values(), ids=INSERTED.keys())
def test_insert_before(code: str, expected: str | None) -> None:
    read = source(code)
    tree = read.tree()
    assert isinstance(tree, ast.Module)
    statement = next(node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    change: Change = insert_before(statement, "m.eval()")
    assert change.text(read) == expected
