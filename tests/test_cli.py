"""The command line: what it prints where, and with which code it exits."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from detlint.cli import main
from detlint.reports import LINT_FORMATS
from detlint.reports.terminal import printable
from detlint.rulebook import load_rules

DROPOUT = "import torch.nn.functional as F\n\ndef forward(x):\n    return F.dropout(x, 0.5)\n"
CLEAN = "import torch\n"
BENCHMARK = "import torch\n\ntorch.backends.cudnn.benchmark = True\n"
LISTING = "import os\n\ndef files(root):\n    return [name for name in os.listdir(root)]\n"


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        return json.loads(self.out)


class Shell:
    """A folder in which to run the command line, in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def __call__(self, *args: str, stdin: bytes = b"") -> Outcome:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exited:
            main(list(args))
        captured = self._capsys.readouterr()
        assert isinstance(exited.value.code, int)
        return Outcome(exited.value.code, captured.out, captured.err)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detlint.toml").write_text("")
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def project(shell: Shell) -> Shell:
    """One finding in `bad.py`, none in `good.py`."""
    shell.write("bad.py", DROPOUT)
    shell.write("good.py", CLEAN)
    return shell


# --- findings and exit codes -----------------------------------------------------------------------------------------


def test_a_finding_goes_to_stdout_with_code_1(project: Shell) -> None:
    outcome = project("bad.py")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("bad.py:4:12 DET202 functional-dropout-always-on\n")
    assert "  4 |     return F.dropout(x, 0.5)\n    |            ^^^^^^^^^^^^^^^^^\n" in outcome.out
    assert outcome.out.endswith("\n1 finding (1 warning) in 1 of 1 file.\n")


@pytest.mark.parametrize("args", [("good.py",), ("check", "good.py"), ("empty",), ("bad.py", "--exit-zero")])
def test_code_0(project: Shell, args: tuple[str, ...]) -> None:
    (project.folder / "empty").mkdir()
    outcome = project(*args)
    assert (outcome.code, outcome.err) == (0, "")


def test_named_files_that_are_not_python_are_passed_over_but_not_in_silence(project: Shell) -> None:
    project.write("notes.txt", "F.dropout(x)")
    project.write("types.pyi", "x: int")
    outcome = project("notes.txt", "good.py", "types.pyi")
    assert (outcome.code, outcome.err) == (0, "detlint: not Python, not linted: notes.txt, types.pyi\n")
    assert project(".").err == ""


def test_no_path_is_the_current_folder(project: Shell) -> None:
    assert project().out == project(".").out == project("check").out == project("check", ".").out


def test_a_file_that_does_not_parse_is_a_finding(project: Shell) -> None:
    project.write("broken.py", "x = 1\ndef f(:\n")
    outcome = project("--format", "json")
    assert outcome.code == 1
    found = [(finding["code"], finding["path"], finding["line"]) for finding in outcome.json()["findings"]]  # type: ignore[index]
    assert found == [("DET202", "bad.py", 4), ("DET001", "broken.py", 2)]


def test_select_does_not_hide_files_that_do_not_parse(project: Shell) -> None:
    project.write("broken.py", "def f(:\n")
    assert "DET001" in project("--select", "DET6", "broken.py").out


# what is wrong → arguments, and what stderr must say
USAGE_ERRORS = {
    "unknown rule": (["--select", "DET20X", "good.py"], "--select: unknown rule 'DET20X'; did you mean 'DET20"),
    "unknown rule, nothing to lint": (["--ignore", "mising-eval", "empty"], "--ignore: unknown rule 'mising-eval'"),
    "unknown option": (["--selct", "DET2"], "No such option"),
    "unknown format": (["--format", "xml"], "'xml' is not one of"),
    "unknown level": (["--fail-on", "high"], "'high' is not one of"),
    "no such path": (["nothing.py"], "nothing.py: "),
    "unknown option of a command that debugs": (["ops", "--debug", "nothing-of-it"], "no operator of that name"),
    "misspelt command": (["expalin", "DET202"], "expalin: no such path or command; did you mean 'explain'?"),
    "no jobs": (["--jobs", "0"], "0 is not in the range"),
    "torch version": (["--torch-version", "new"], "--torch-version: 'new' is not a release"),
    "stdin and a path": (["-", "good.py"], "-: stdin cannot be linted together with other paths"),
    "statistics for machines": (
        ["--statistics", "--format", "sarif"],
        "--statistics: only with --format text or concise",
    ),
    "no such configuration": (["--config", "none.toml"], "none.toml: no such configuration file"),
    "no folder for the report": (["--output", "no/where.txt"], "no/where.txt: cannot be written"),
    "a family": (["explain", "det6"], "det6: no such rule; did you mean 'DET60"),
    "an operator by the name of an alias": (["ops", "F.dropout_"], "F.dropout_: no operator of that name"),
    "an operator of a module": (
        ["ops", "F.interpolate"],
        "no operator of that name; did you mean 'torch.nn.functional.interp",
    ),
    "half a pattern": (["--exclude", "[a"], "--exclude: '[a' is not a pattern as in .gitignore"),
    "no such rule": (["explain", "DET20"], "DET20: no such rule; did you mean 'DET20"),
}


@pytest.mark.parametrize("args, message", USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_code_2_with_one_line(project: Shell, args: list[str], message: str) -> None:
    (project.folder / "empty").mkdir()
    outcome = project(*args)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("detlint: ")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_broken_configuration_is_code_2(project: Shell) -> None:
    project.write("detlint.toml", "selct = []")
    outcome = project("good.py")
    assert (outcome.code, outcome.out) == (2, "")
    assert "detlint.toml: unknown key 'selct'; did you mean 'select'?" in outcome.err


@pytest.mark.parametrize(
    "args, code, shown",
    [
        ([], 1, True),
        (["--fail-on", "warning"], 1, True),
        (["--fail-on", "error"], 0, True),
        (["--severity", "warning"], 1, True),
        (["--severity", "error"], 0, False),
    ],
)
def test_what_is_shown_and_what_fails(project: Shell, args: list[str], code: int, shown: bool) -> None:
    outcome = project("bad.py", *args)
    assert outcome.code == code
    assert ("DET202" in outcome.out) == shown


def test_fail_on_of_the_configuration_nearest_to_the_file(project: Shell) -> None:
    project.write("lenient/detlint.toml", 'fail-on = "error"')
    project.write("lenient/bad.py", DROPOUT)
    assert project("lenient").code == 0
    assert project("lenient", "--fail-on", "info").code == 1
    assert project(".").code == 1


# --- selection -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, code",
    [
        (["--select", "DET202"], 1),
        (["--select", "DET6,DET2"], 1),
        (["--select", "DET6", "--select", "functional-dropout-always-on"], 1),
        (["--select", "DET6"], 0),
        (["--select", "DET6", "--extend-select", "DET2"], 1),
        (["--ignore", "DET202"], 0),
        (["--ignore", "DET6,DET2"], 0),
        (["--exclude", "bad.py", "."], 0),
        (["--extend-exclude", "b*.py", "."], 0),
        (["--extend-exclude", "bad.py", "bad.py"], 1),
        (["--extend-exclude", "bad.py", "--force-exclude", "bad.py"], 0),
    ],
)
def test_flags_that_choose(project: Shell, args: list[str], code: int) -> None:
    assert project(*args).code == code


def test_configuration_and_isolated(project: Shell) -> None:
    project.write("detlint.toml", 'ignore = ["DET202"]')
    other = project.write("other.toml", 'exclude = ["bad.py"]')
    assert project().code == 0
    assert project("--isolated").code == 1
    assert project("--config", str(other)).code == 0
    assert project("--config", str(other), "bad.py").code == 1


def test_per_file_ignores(project: Shell) -> None:
    project.write("detlint.toml", '[per-file-ignores]\n"b*.py" = ["DET2"]\n')
    assert project().code == 0


# --- formats and output ----------------------------------------------------------------------------------------------


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


# --- stdin -----------------------------------------------------------------------------------------------------------


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


# --- explain and rules -----------------------------------------------------------------------------------------------


def test_every_rule_can_be_explained(shell: Shell) -> None:
    for rule in load_rules().values():
        by_code, by_name = (shell("explain", word, "--all-examples") for word in (rule.code, rule.name))
        assert (by_code.code, by_code.err) == (0, "")
        assert by_code.out == by_name.out == shell("explain", rule.code.lower(), "--all-examples").out
        for part in (rule.code, rule.name, *rule.why.split(), *rule.fix.split(), *rule.references):
            assert part in by_code.out
        for example in (*rule.bad, *rule.good):
            assert all(line in by_code.out for line in map(printable, example.code.splitlines()))


def test_a_page_shows_the_first_examples_and_says_how_many_more_there_are(shell: Shell) -> None:
    rule = load_rules()["DET202"]
    page = shell("explain", "DET202").out
    assert page.count("```python") == 6
    assert page.endswith(f"\nAll {len(rule.bad) + len(rule.good)} examples: `detlint explain DET202 --all-examples`\n")


def test_rules_are_listed(project: Shell) -> None:
    rules = load_rules()
    lines = project("rules").out.splitlines()
    assert [line.split()[0] for line in lines] == list(rules)
    table = project("rules", "--format", "json").json()
    assert [row["code"] for row in table if row["enabled"]] == [code for code, rule in rules.items() if rule.default]  # type: ignore[attr-defined]


def test_the_list_follows_the_configuration(project: Shell) -> None:
    project.write("detlint.toml", 'select = ["DET202"]')
    starred = [line.split()[0] for line in project("rules").out.splitlines() if line.split()[1] == "*"]
    assert starred == ["DET001", "DET202"]


OWN_RULE = """
code = "OWN001"
name = "house-rule"
family = "house"
severity = "error"
default = true
summary = "a call that this house forbids"
message = "{call} is forbidden here"
why = "Because."
fix = "Leave it."
triggers = ["torch.nn.functional.dropout(input, p=0.5, training=True, inplace=False)"]
match = { when = { training = true } }
"""


def test_rules_of_the_project_itself(project: Shell) -> None:
    project.write("detlint.toml", 'rule-paths = ["rules"]\nselect = ["OWN"]')
    project.write("rules/own.toml", OWN_RULE)
    assert "bad.py:4:12: OWN001 house-rule: " in project("--format", "concise").out
    assert project("--ignore", "house-rule").code == 0
    assert "# OWN001 house-rule" in project("explain", "OWN001").out
    project.write("rules/own.toml", OWN_RULE.replace("severity", "severty"))
    broken = project()
    assert (broken.code, broken.out) == (2, "")
    assert "own.toml: severity: missing" in broken.err


def test_help_and_version(shell: Shell) -> None:
    for args in (["--help"], ["-h"], ["check", "--help"], ["explain", "-h"]):
        outcome = shell(*args)
        assert outcome.code == 0
        assert "Usage: detlint" in outcome.out
    assert shell("--version").out == shell("-V").out
    assert shell("--version").out.startswith("detlint ")


def test_a_path_named_as_a_command_needs_a_slash(shell: Shell) -> None:
    shell.write("rules", "#!/usr/bin/env python\n" + DROPOUT)
    assert "DET202 " in shell("rules").out
    assert shell("./rules").code == 1
    assert shell("check", "rules").code == 1


# --- processes -------------------------------------------------------------------------------------------------------

DETLINT = [sys.executable, "-m", "detlint"]


def on_terminal(args: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run detlint with a terminal for stdout and return what it shows."""
    leader, follower = pty.openpty()
    variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [*DETLINT, *args],
        cwd=folder,
        env={**variables, "TERM": "xterm-256color", "COLUMNS": "100", **(environment or {})},
        stdout=follower,
        stderr=subprocess.DEVNULL,  # no line of progress on a slow machine
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        shown += part
    process.wait()
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def test_colour_is_for_terminals_that_want_it(project: Shell) -> None:
    plain = project("bad.py").out
    assert "\x1b[" in on_terminal(["bad.py"], project.folder)
    for args, variables in ((["bad.py", "--no-color"], {}), (["bad.py"], {"NO_COLOR": "1"})):
        assert on_terminal(args, project.folder, variables) == plain


@pytest.mark.parametrize(
    ("variables", "args", "colored"),
    [
        ({"FORCE_COLOR": "1"}, [], True),
        ({"CLICOLOR_FORCE": "1", "TERM": "dumb"}, [], True),
        ({"FORCE_COLOR": "0"}, [], False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "1"}, ["--no-color"], False),
        ({"FORCE_COLOR": "1"}, ["--output", "report.txt"], False),
    ],
)
def test_colour_can_be_forced(
    project: Shell, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], args: list[str], colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in project("bad.py", *args).out) is colored


def test_explain_is_formatted_on_terminals(project: Shell) -> None:
    shown = on_terminal(["explain", "DET202"], project.folder)
    assert "\x1b[" in shown
    assert "```" not in shown
    assert "functional-dropout-always-on" in shown


def test_a_reader_that_stops_early_is_no_error(project: Shell) -> None:
    for number in range(400):
        project.write(f"pkg/m{number}.py", DROPOUT)
    process = subprocess.Popen(
        [*DETLINT, "--jobs", "1", "."], cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("redirection", "args", "code", "message"),
    [
        (">/dev/full", "bad.py", 2, "detlint: stdin or stdout: No space left on device\n"),
        (">&-", "bad.py", 2, "detlint: stdin or stdout: Bad file descriptor\n"),
        (">&-", "explain DET202", 2, "detlint: stdin or stdout: Bad file descriptor\n"),
        (">&-", "bad.py --output report.txt", 1, ""),
        ("2>&-", "bad.py --output report.txt", 1, ""),
        ("<&-", "-", 2, "detlint: stdin or stdout: Bad file descriptor\n"),
    ],
)
def test_streams_that_fail_are_one_line(project: Shell, redirection: str, args: str, code: int, message: str) -> None:
    command = f"'{sys.executable}' -m detlint {args} {redirection}"
    done = subprocess.run(["sh", "-c", command], cwd=project.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


def test_interrupting_is_quiet(project: Shell) -> None:
    process = subprocess.Popen(
        [*DETLINT, "-"],
        cwd=project.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs inherit "ignore"
    )
    assert process.stdin is not None
    process.stdin.write(b"#" * 2**20)
    process.stdin.flush()  # more than a pipe holds: it reads its input now, and waits for the rest
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_output_survives_an_encoding_that_lacks_characters(project: Shell) -> None:
    project.write("bad.py", DROPOUT.replace("0.5)", "0.5)  # é漢 " + "x" * 200))
    done = subprocess.run(
        [*DETLINT, "bad.py"],
        cwd=project.folder,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"# \xe9\\u6f22 xxx" in done.stdout


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_hash_seed_changes_nothing(seed: str, tmp_path: Path) -> None:
    examples = Path(__file__).parents[1] / "examples"

    def report(value: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": value}
        args = [*DETLINT, "--isolated", "--select", "ALL", "--format", "sarif", str(examples)]
        return subprocess.run(args, env=environment, cwd=tmp_path, capture_output=True, check=False).stdout

    assert report(seed) == report("99")
