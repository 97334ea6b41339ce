"""Reports of the command line: every format, wherever it goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from detlint.reports import LINT_FORMATS
from tests.cli.shell import DETLINT, DROPOUT, Shell


@pytest.mark.parametrize("style", LINT_FORMATS)
def test_every_format_is_the_same_with_more_jobs_and_from_anywhere(project: Shell, style: str) -> None:
    for number in range(20):
        project.write(f"pkg/m{number}.py", DROPOUT)

    def report(*args: str) -> str:
        outcome = project("--format", style, *args)
        assert (outcome.code, outcome.err) == (1, "")
        return "\n".join(line for line in outcome.out.splitlines() if '"seconds"' not in line)

    once = report(".")
    assert once == report("--jobs", "1", ".") == report("--jobs", "2", "bad.py", "pkg", "good.py")
    assert once.count("DET202") >= 21


EMPTY_REPORTS = {"concise": "", "jsonl": "", "github": "", "gitlab": "[]\n"}


@pytest.mark.parametrize("style", LINT_FORMATS)
def test_nothing_found_is_an_empty_document(project: Shell, style: str) -> None:
    outcome = project("--format", style, "good.py")
    assert (outcome.code, outcome.err) == (0, "")
    if style in EMPTY_REPORTS:
        assert outcome.out == EMPTY_REPORTS[style]
    if style == "json":
        assert outcome.json()["findings"] == []  # type: ignore[index]
    if style == "sarif":
        assert outcome.json()["runs"][0]["results"] == []  # type: ignore[index]


def test_sarif_names_the_rules_in_force(project: Shell) -> None:
    driver = project("--format", "sarif", "--select", "DET203,DET202").json()["runs"][0]["tool"]["driver"]  # type: ignore[index]
    assert [rule["id"] for rule in driver["rules"]] == ["DET001", "DET202", "DET203"]


def test_output_replaces_a_file_and_leaves_stdout_alone(project: Shell) -> None:
    target = project.write("report.json", "old")
    target.chmod(0o640)
    outcome = project("--no-cache", "--format", "json", "--output", "report.json", "bad.py")
    assert (outcome.code, outcome.out, outcome.err) == (1, "", "")
    assert json.loads(target.read_text())["summary"]["findings"] == 1
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in project.folder.iterdir()) == [
        "bad.py",
        "detlint.toml",
        "good.py",
        "report.json",
    ]


def test_output_to_what_stdout_goes_to_is_printed_in_its_turn(project: Shell) -> None:
    log = project.folder / "log"
    with log.open("wb", buffering=0) as stream:
        stream.write(b"before\n")
        command = [*DETLINT, "--no-cache", "--format", "concise", "--output", "/dev/stdout", "bad.py"]
        subprocess.run(command, cwd=project.folder, stdout=stream, check=False)
        stream.write(b"after\n")
    before, *report, after = log.read_text().splitlines()
    assert (before, after) == ("before", "after")
    assert any("DET202" in line for line in report)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with names there")
def test_output_to_a_pipe_goes_through_it(project: Shell) -> None:
    pipe = project.folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", "pipe"], cwd=project.folder, stdout=subprocess.PIPE) as reader:
        command = [*DETLINT, "--no-cache", "--format", "concise", "--output", "pipe", "bad.py"]
        subprocess.run(command, cwd=project.folder, check=False)
        replaced = not pipe.is_fifo()
        if replaced:
            reader.kill()
        out, _ = reader.communicate()
    assert not replaced
    assert b"DET202" in out


def test_output_to_a_link_in_a_circle_is_code_2(project: Shell) -> None:
    (project.folder / "circle").symlink_to("circle")
    outcome = project("--no-cache", "--output", "circle", "bad.py")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "circle: cannot be written: " in outcome.err
    assert "internal error" not in outcome.err


def test_statistics(project: Shell) -> None:
    project.write("worse.py", DROPOUT + "def again(x):\n    return F.dropout(x)\n")
    outcome = project("--statistics")
    assert (outcome.code, outcome.out) == (1, "3  DET202  functional-dropout-always-on\n")


def test_suppressed_findings_are_shown_on_request(project: Shell) -> None:
    project.write("bad.py", DROPOUT.replace("0.5)", "0.5)  # detlint: ignore[DET202] wanted at test time"))
    assert project("bad.py").code == 0
    outcome = project("bad.py", "--show-suppressed")
    assert outcome.code == 0
    assert "= suppressed: wanted at test time\n" in outcome.out
    assert outcome.out.endswith("No findings in 1 file.\n")
    (finding,) = project("bad.py", "--show-suppressed", "--format", "json").json()["findings"]  # type: ignore[index]
    assert finding["suppressed"] == "wanted at test time"


def test_notebooks(project: Shell) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch.nn.functional as F"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%time 1\n", "y = F.dropout(x)"]},
    ]
    project.write("nb.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    outcome = project("nb.ipynb")
    assert outcome.out.startswith("nb.ipynb:cell 3:2:5 DET202 ")
    assert "  2 | y = F.dropout(x)\n    |     ^^^^^^^^^^^^\n" in outcome.out


@pytest.mark.parametrize("joined", [False, True], ids=["lines", "one string"])
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_places_in_notebooks_are_lines_of_the_file_for_those_who_count_them(
    project: Shell, joined: bool, stdin: bool
) -> None:
    lines = ["import torch.nn.functional as F\n", "\n", "y = F.dropout(x)"]
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "".join(lines) if joined else lines}
    note = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]}
    text = json.dumps({"cells": [note, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    project.write("nb.ipynb", text)
    line = next(number for number, line in enumerate(text.split("\n"), 1) if "F.dropout" in line)

    def report(style: str) -> str:
        args = ("-", "--stdin-filename", "nb.ipynb") if stdin else ("nb.ipynb",)
        return project("--format", style, *args, stdin=text.encode()).out

    assert f"file=nb.ipynb,line={line}::" in report("github")
    assert json.loads(report("gitlab"))[0]["location"]["lines"] == {"begin": line, "end": line}
    assert f'line="{line}"' in report("junit")
    (result,) = json.loads(report("sarif"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": line}


def test_hostile_names_and_lines_do_not_reach_the_terminal_as_they_are(project: Shell) -> None:
    project.write("a\x1b[2J.py", DROPOUT.replace("0.5)", "0.5)  # \x1b[31m\u202e"))
    outcome = project("--format", "text", ".")
    assert "\x1b" not in outcome.out
    assert "\u202e" not in outcome.out
