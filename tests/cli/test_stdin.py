"""`detlint -`: what comes on stdin is linted, and fixed, where its file would be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.shell import BENCHMARK, CLEAN, DROPOUT, LISTING, Shell


@pytest.mark.parametrize("args", [["-"], ["--stdin-filename", "stdin.py"], ["-", "--stdin-filename", "stdin.py"]])
def test_stdin(shell: Shell, args: list[str]) -> None:
    outcome = shell(*args, stdin=DROPOUT.encode())
    assert outcome.code == 1
    assert outcome.out.startswith("stdin.py:4:12 DET202 ")
    assert "  4 |     return F.dropout(x, 0.5)\n" in outcome.out


def test_stdin_uses_the_configuration_of_its_name(shell: Shell) -> None:
    shell.write("sub/detlint.toml", 'ignore = ["DET2"]')
    assert shell("-", "--stdin-filename", "sub/m.py", stdin=DROPOUT.encode()).code == 0


def test_stdin_that_is_no_python(shell: Shell) -> None:
    assert shell("-", stdin=b"\xff\xfe\x00").code == 1
    assert shell("-", stdin=b"").code == 0


@pytest.mark.parametrize(
    "name, flags, code",
    [
        ("notes.txt", [], 0),
        ("vendored/m.py", [], 1),
        ("vendored/m.py", ["--force-exclude"], 0),
        ("m.py", ["--force-exclude"], 1),
    ],
)
def test_stdin_is_linted_where_its_file_would_be(shell: Shell, name: str, flags: list[str], code: int) -> None:
    shell.write("detlint.toml", 'extend-exclude = ["vendored"]')
    outcome = shell("-", "--stdin-filename", name, *flags, stdin=DROPOUT.encode())
    assert (outcome.code, outcome.err) == (code, "")


# What comes on stdin → what `--fix -` passes on, and its code: that of linting what it passed on.
PIPED = {
    "fixed": (BENCHMARK, BENCHMARK.replace("True", "False"), 0),
    "fixed, with something left": (BENCHMARK + DROPOUT, BENCHMARK.replace("True", "False") + DROPOUT, 1),
    "CRLF": (BENCHMARK.replace("\n", "\r\n"), BENCHMARK.replace("\n", "\r\n").replace("True", "False"), 0),
    "byte order mark": ("\ufeff" + BENCHMARK, "\ufeff" + BENCHMARK.replace("True", "False"), 0),
    "nothing to fix": (CLEAN, CLEAN, 0),
    "only an unsafe fix": (LISTING, LISTING, 1),
    "no Python": ("def f(:\n", "def f(:\n", 1),
    "nothing at all": ("", "", 0),
}


@pytest.mark.parametrize(("before", "after", "code"), PIPED.values(), ids=PIPED.keys())
def test_what_is_fixed_on_stdin_goes_to_stdout_and_the_report_to_stderr(
    shell: Shell, before: str, after: str, code: int
) -> None:
    outcome = shell("--fix", "-", stdin=before.encode())
    assert (outcome.code, outcome.out) == (code, after)
    told = "stdin.py: fixed DET401 cudnn-benchmark (1)\n" if before != after else ""
    assert outcome.err == told + shell("-", stdin=after.encode()).out
    assert shell("--fix", "-", "--exit-zero", stdin=before.encode()).code == 0


@pytest.mark.parametrize("before", [case[0] for case in PIPED.values()], ids=PIPED.keys())
def test_the_diff_of_stdin_is_that_of_a_file(shell: Shell, before: str) -> None:
    shell.write("stdin.py", before)
    assert shell("--diff", "-", stdin=before.encode()) == shell("--diff", "stdin.py")
    assert shell.folder.joinpath("stdin.py").read_bytes() == before.encode()


def test_a_report_on_fixed_stdin_can_go_to_a_file(shell: Shell) -> None:
    outcome = shell("--fix", "-", "--format", "json", "--output", "report.json", stdin=DROPOUT.encode())
    assert (outcome.code, outcome.out, outcome.err) == (1, DROPOUT, "")
    assert json.loads(shell.folder.joinpath("report.json").read_text())["summary"]["findings"] == 1


def test_unsafe_fixes_on_stdin_keep_its_encoding(shell: Shell) -> None:
    source = f"# coding: latin-1\n# é\n{LISTING}".encode("latin-1")
    command = [sys.executable, "-m", "detlint", "--isolated", "--fix", "--unsafe-fixes", "-"]
    done = subprocess.run(command, cwd=shell.folder, input=source, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, source.replace(b"os.listdir(root)", b"sorted(os.listdir(root))"))


@pytest.mark.parametrize("name", ["notes.txt", "vendored/m.py"])
def test_stdin_that_stands_for_a_file_left_out_is_passed_on(shell: Shell, name: str) -> None:
    shell.write("detlint.toml", 'exclude = ["vendored"]')
    outcome = shell("--fix", "-", "--force-exclude", "--stdin-filename", name, stdin=BENCHMARK.encode())
    assert (outcome.code, outcome.out) == (0, BENCHMARK)
    assert shell("--diff", "-", "--force-exclude", "--stdin-filename", name, stdin=BENCHMARK.encode()).out == ""


def test_a_notebook_on_stdin_is_fixed(shell: Shell) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": BENCHMARK.splitlines(keepends=True), "outputs": []}
    source = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    outcome = shell("--fix", "--stdin-filename", "a.ipynb", stdin=source.encode())
    assert (outcome.code, outcome.out) == (0, source.replace("= True", "= False"))


def test_a_notebook_on_stdin_needs_no_name(shell: Shell) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": BENCHMARK.splitlines(keepends=True), "outputs": []}
    source = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    outcome = shell("-", stdin=source.encode())
    assert (outcome.code, outcome.out.startswith("stdin.ipynb:cell 1:3:")) == (1, True)
    assert shell("--fix", "-", stdin=source.encode()).out == source.replace("= True", "= False")
    assert shell("-", stdin=b'{"nbformat": 4}[0]\n').code == 0  # an expression
