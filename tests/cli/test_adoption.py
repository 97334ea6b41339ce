"""Baselines, --since, --add-ignore, --watch and clean on the command line: exit codes, and what is printed where."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.cli import main

LISTING = "import os\n\ndef files(root):\n    return list(os.listdir(root))\n"
MORE = "\ndef more(root):\n    return [name for name in os.listdir(root)]\n"
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run the command line in a folder that holds `a.py`; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "a.py").write_text(LISTING)

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            main(["check", "--format", "concise", "--jobs", "1", "--no-cache", *args])
        out, err = capsys.readouterr()
        assert isinstance(exited.value.code, int)
        return exited.value.code, out, err

    return run


def test_baseline(shell: Shell, tmp_path: Path) -> None:
    assert shell()[0] == 1
    assert shell("--write-baseline", "known.json") == (0, "", "known.json: findings listed: 1\n")
    assert shell("--baseline", "known.json") == (0, "", "")
    assert shell("--baseline", "known.json", "--format", "text")[1] == "No findings in 1 file (1 in the baseline).\n"
    (tmp_path / "a.py").write_text("# a comment\n\n" + LISTING + MORE)
    code, out, _ = shell("--baseline", "known.json")
    assert (code, out.count("\n"), out.startswith("a.py:9:")) == (1, 1, True)
    # writing it again does not hide what is new
    assert shell("--write-baseline", "known.json")[:2] == (code, out)
    assert shell("--baseline", "known.json")[:2] == (code, out)
    (tmp_path / "a.py").write_text("x = 1\n")
    assert shell("--write-baseline", "known.json") == (0, "", "known.json: findings listed: 0, before 1\n")
    assert json.loads((tmp_path / "known.json").read_text())["findings"] == []


def test_a_baseline_that_is_used_and_shortened_keeps_what_is_found(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(LISTING + MORE)
    shell("--write-baseline", "known.json")
    before = (tmp_path / "known.json").read_text()
    (tmp_path / "b.py").write_text(LISTING)
    code, out, _ = shell("--baseline", "known.json", "--write-baseline", "known.json")
    assert (code, out.count("\n"), out.startswith("b.py:4:")) == (1, 1, True)
    assert (tmp_path / "known.json").read_text() == before
    # another one is made of all that was found
    assert shell("--baseline", "known.json", "--write-baseline", "other.json")[:2] == (0, "")
    assert len(json.loads((tmp_path / "other.json").read_text())["findings"]) == 3


@pytest.mark.parametrize("how", ["flag", "configuration", "per-file-ignores", "syntax error"])
def test_a_baseline_keeps_what_was_not_looked_for(shell: Shell, tmp_path: Path, how: str) -> None:
    shell("--write-baseline", "known.json")
    before = (tmp_path / "known.json").read_text()
    configurations = {"configuration": 'severity = "error"', "per-file-ignores": 'per-file-ignores = {"*" = ["DET6"]}'}
    (tmp_path / "detlint.toml").write_text(configurations.get(how, ""))
    if how == "syntax error":
        (tmp_path / "a.py").write_text(LISTING + "def f(:\n")
    shell("--write-baseline", "known.json", *(["--severity", "error"] if how == "flag" else []))
    assert (tmp_path / "known.json").read_text() == before


def test_what_a_baseline_lists_is_neither_fixed_nor_silenced(shell: Shell, tmp_path: Path) -> None:
    shell("--write-baseline", "known.json")
    known = ("--baseline", "known.json")
    assert shell("--fix", "--unsafe-fixes", *known) == shell("--add-ignore", *known) == (0, "", "")
    assert (tmp_path / "a.py").read_text() == LISTING
    assert shell("--format", "text", "--diff", "--unsafe-fixes", *known) == (0, "", "")
    (tmp_path / "a.py").write_text(LISTING + MORE)
    shell("--fix", "--unsafe-fixes", *known)
    assert (tmp_path / "a.py").read_text() == LISTING + MORE.replace("os.listdir(root)", "sorted(os.listdir(root))")


@pytest.mark.parametrize(
    "flags", [("--baseline", "none.json"), ("--output", "no/such.txt"), ("--write-baseline", "no/such.json")], ids=str
)
def test_a_mistake_in_a_path_changes_no_file(shell: Shell, tmp_path: Path, flags: tuple[str, ...]) -> None:
    code, out, err = shell("--fix", "--unsafe-fixes", *flags)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "a.py").read_text() == LISTING


def test_a_diff_can_go_to_a_file(shell: Shell, tmp_path: Path) -> None:
    shown = shell("--format", "text", "--diff", "--unsafe-fixes")
    assert (shown[0], shown[2]) == (1, "")
    assert shell("--format", "text", "--diff", "--unsafe-fixes", "--output", "a.patch") == (1, "", "")
    assert (tmp_path / "a.patch").read_text() == shown[1]


def test_a_diff_of_what_does_not_parse_is_not_clean(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(:\n")
    code, out, err = shell("--format", "text", "--diff")
    assert (code, out) == (1, "")
    assert err.startswith("a.py:1:7: DET001 syntax-error: ")


def git(*arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)


def test_since(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "untouched.py").write_text(LISTING)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert shell("--since", "HEAD") == (0, "", "")
    (tmp_path / "a.py").write_text(LISTING + MORE)
    code, out, _ = shell("--since", "HEAD")
    assert (code, out.count("\n"), out.startswith("a.py:7:")) == (1, 1, True)
    assert shell("--since", "HEAD", "untouched.py")[0] == 0


def test_facts_still_come_from_the_whole_project(shell: Shell, tmp_path: Path) -> None:
    """The seed is set in a file that did not change."""
    (tmp_path / "seeding.py").write_text("import torch\n\ndef prepare():\n    torch.manual_seed(0)\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    program = "import torch\nfrom seeding import prepare\n\nprepare()\nx = torch.rand(3)\nprint(x)\n"
    (tmp_path / "train.py").write_text(program)
    assert shell("--since", "HEAD") == (0, "", "")
    (tmp_path / "train.py").write_text(program.replace("prepare()\n", ""))
    assert "DET101" in shell("--since", "HEAD")[1]


def test_add_ignore(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell("--add-ignore")
    assert (code, out, err) == (0, "", "a.py: ignored DET601 unsorted-listing (1)\n")
    assert (tmp_path / "a.py").read_text() == LISTING.rstrip("\n") + "  # detlint: ignore[DET601]\n"
    assert shell("--add-ignore") == (0, "", "")


def test_clean(shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    time.sleep(0.03)  # what changed within a tick of the file system's clock before a run is not kept
    with pytest.raises(SystemExit):
        main(["check", "--jobs", "1"])
    assert (tmp_path / ".detlint_cache").is_dir()
    for _ in range(2):
        with pytest.raises(SystemExit) as exited:
            main(["clean"])
        assert exited.value.code == 0
        assert not (tmp_path / ".detlint_cache").exists()


ERRORS = {
    "no baseline": (("--baseline", "none.json"), "none.json: No such file or directory; --write-baseline none.json"),
    "nothing to watch by": (("--watch", "--since", "HEAD"), "--since: not in a git repository"),
    "no repository": (("--since", "HEAD"), "--since: not in a git repository"),
    "a diff as JSON": (("--diff",), "--diff, --format: one or the other"),
    "a baseline of some lines": (("--since", "HEAD", "--write-baseline", "b.json"), "one or the other"),
    "stdin": (("--add-ignore", "-"), "not on stdin"),
    "a baseline of stdin": (("--write-baseline", "b.json", "-"), "not on stdin"),
    "folder of the baseline": (("--write-baseline", "no/such.json"), "no/such.json: cannot be written"),
}


@pytest.mark.parametrize(("args", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_are_one_line(shell: Shell, args: tuple[str, ...], message: str) -> None:
    code, out, err = shell(*args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_watch_lints_again_after_a_change_and_ends_quietly(tmp_path: Path) -> None:
    path, log = tmp_path / "a.py", tmp_path / "log"
    path.write_text("x = 1\n")
    command = [sys.executable, "-m", "detlint", "check", "--isolated", "--no-cache", "--format", "concise", "--watch"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "."],
            cwd=tmp_path,
            stdout=stream,
            stderr=stream,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs inherit "ignore"
        )
    try:
        wait_for(lambda: b"exit code 0. Watching" in log.read_bytes())
        path.write_text(LISTING)
        wait_for(lambda: b"DET601" in log.read_bytes() and b"exit code 1. Watching" in log.read_bytes())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert b"Traceback" not in log.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_watch_sees_a_configuration_change_and_a_file_that_is_away_for_a_moment(tmp_path: Path) -> None:
    path, log = tmp_path / "a.py", tmp_path / "log"
    path.write_text(LISTING)
    (tmp_path / "detlint.toml").write_text("")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "detlint", "--no-cache", "--format", "concise", "--watch", "a.py"],
            cwd=tmp_path,
            stdout=stream,
            stderr=stream,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        wait_for(lambda: log.read_bytes().count(b"exit code 1. Watching") == 1)
        (tmp_path / "detlint.toml").write_text('ignore = ["DET601"]\n')
        wait_for(lambda: b"exit code 0. Watching" in log.read_bytes())
        path.rename(tmp_path / "b.py")
        wait_for(lambda: b"exit code 2. Watching" in log.read_bytes())
        (tmp_path / "b.py").rename(path)
        wait_for(lambda: log.read_bytes().count(b"exit code 0. Watching") == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
