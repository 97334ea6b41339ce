"""The command line as a process: terminals, pipes that close, signals, encodings, hash seeds."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import DETLINT, DROPOUT, Shell


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


@pytest.mark.parametrize("command", ["rules", "explain DET202", "ops", "env"])
def test_a_reader_that_reads_nothing_is_no_error(project: Shell, command: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [*DETLINT, *command.split()], cwd=project.folder, stdout=writes, stderr=subprocess.PIPE, check=False
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [
        pytest.param("detlint ex", 1, "plain,explain", id="command"),
        pytest.param("detlint check --form", 2, "plain,--format", id="option"),
        pytest.param("detlint --form", 1, "plain,--format", id="option-without-command"),
        pytest.param("detlint src", 1, "file,src", id="path"),
        pytest.param("detlint src --sel", 2, "plain,--select", id="option-after-path"),
    ],
)
def test_shells_complete_commands_options_and_paths(project: Shell, words: str, place: int, offered: str) -> None:
    asked = {"_DETLINT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(
        DETLINT, cwd=project.folder, env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [offered], "")


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
    examples = Path(__file__).parents[2] / "examples"

    def report(value: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": value}
        args = [*DETLINT, "--isolated", "--select", "ALL", "--format", "sarif", str(examples)]
        return subprocess.run(args, env=environment, cwd=tmp_path, capture_output=True, check=False).stdout

    assert report(seed) == report("99")
