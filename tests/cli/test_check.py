"""`detlint check`: what is linted, which rules speak, and with which code it exits."""

from __future__ import annotations

import pytest

from tests.cli.shell import DROPOUT, Shell


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
