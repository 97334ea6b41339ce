"""The cache never breaks a run, whatever is found in its place, and whatever comes between."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.cache import FOLDER, clean
from detlint.linter.engine import lint_paths
from tests.linter.cached import PROGRAM, SEEDING, held, lint, write

DAMAGE = {
    "not JSON": b"\x00\xff garbage",
    "other JSON": b"[1, 2]",
    "truncated": b'{"detlint": "x", "entries": {',
    "empty": b"",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_cache_is_ignored_and_replaced(project: Path, content: bytes) -> None:
    first = lint()
    (project / FOLDER / "results.json").write_bytes(content)
    assert lint().findings == first.findings
    assert held(project) == {"train.py", "helper.py"}


def test_entries_of_the_wrong_shape_are_ignored(project: Path) -> None:
    first = lint()
    store = project / FOLDER / "results.json"
    document = json.loads(store.read_text())
    for entry in document["entries"].values():
        entry["findings"] = [{"code": 1}]
    store.write_text(json.dumps(document))
    assert held(project) == set()
    assert lint().findings == first.findings


def test_folder_that_cannot_be_written_is_no_error(project: Path) -> None:
    (project / FOLDER).write_text("a file where the folder should be")
    assert [finding.code for finding in lint().findings] == ["DET101"]


def test_links_that_a_repository_brings_along_are_not_written_through(project: Path) -> None:
    theirs = project / "theirs"
    theirs.mkdir()
    for name in ("authorized_keys", "notes.json"):
        (theirs / name).write_text("mine")
    (project / FOLDER).mkdir()
    (project / FOLDER / ".gitignore").symlink_to(theirs / "authorized_keys")
    (project / FOLDER / "results.json").symlink_to(theirs / "notes.json")
    first = lint()
    assert [path.read_text() for path in theirs.iterdir()] == ["mine", "mine"]
    assert not (project / FOLDER / "results.json").is_symlink()
    assert held(project) == {"train.py", "helper.py"}
    assert lint().findings == first.findings


def test_a_folder_that_is_a_link_is_no_cache(project: Path) -> None:
    theirs = project / "theirs"
    theirs.mkdir()
    (project / FOLDER).symlink_to(theirs)
    assert [finding.code for finding in lint().findings] == ["DET101"]
    (theirs / "results.json").write_text("mine")
    assert not clean(project)
    assert [path.read_text() for path in theirs.iterdir()] == ["mine"]


def test_a_file_changed_during_the_run_is_not_kept(project: Path) -> None:
    (project / "train.py").write_text(PROGRAM)
    os.utime(project / "train.py", (4_000_000_000, 4_000_000_000))
    lint()
    assert held(project) == {"helper.py"}


def test_a_file_swapped_for_an_older_one_during_the_run_is_not_kept(project: Path) -> None:
    write(project / "older", PROGRAM.replace("print(torch.rand(3))", "pass"))

    def swap(done: int, total: int) -> None:
        if done == total:
            (project / "older").replace(project / "train.py")

    assert lint_paths(["."], resolver=ConfigResolver(), jobs=1, progress=swap, cached=True).findings
    assert held(project) == {"helper.py"}
    assert lint().findings == lint(cached=False).findings == ()


def test_clean_removes_it(project: Path) -> None:
    lint()
    assert clean(project)
    assert not (project / FOLDER).exists()
    assert not clean(project)


def command(project: Path) -> list[str]:
    """Return a run of its own process over the cache of `project`, with everything it finds on stdout."""
    return [sys.executable, "-m", "detlint", "check", "--format", "jsonl", "--jobs", "1", str(project)]


@pytest.fixture
def larger(project: Path) -> Path:
    for number in range(12):
        write(project / f"program{number}.py", f"# {number}\n{PROGRAM}")
    return project


def test_runs_at_the_same_time_find_what_one_finds(larger: Path) -> None:
    alone = subprocess.run([*command(larger), "--no-cache"], capture_output=True, check=False).stdout
    assert alone.count(b"\n") >= 13
    for _ in range(2):  # the first time they write the cache together, the second time they read it
        together = [subprocess.Popen(command(larger), stdout=subprocess.PIPE) for _ in range(3)]
        assert [process.communicate()[0] for process in together] == [alone] * 3
    assert len(json.loads((larger / FOLDER / "results.json").read_text())["entries"]) == 14
    assert sorted(path.name for path in (larger / FOLDER).iterdir()) == [".gitignore", "results.json"]


def test_runs_that_are_killed_leave_nothing_that_matters(larger: Path) -> None:
    alone = subprocess.run([*command(larger), "--no-cache"], capture_output=True, check=False).stdout
    chance = random.Random(0)
    for _ in range(6):
        process = subprocess.Popen(command(larger), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.1, 1.5))
        process.kill()
        process.wait()
    assert subprocess.run(command(larger), capture_output=True, check=False).stdout == alone
    (larger / FOLDER / ".results.json.half").write_text("what a killed run may leave")
    assert clean(larger)
    assert not (larger / FOLDER).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files there")
def test_a_full_disk_leaves_the_earlier_cache(project: Path) -> None:
    lint()
    before = (project / FOLDER / "results.json").read_bytes()
    write(project / "helper.py", SEEDING)
    program = (
        "import resource, signal, sys\n"
        "from detlint.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # a write beyond fails as on a full disk\n"
        "sys.argv = ['detlint', '.']\n"
        "main()\n"
    )
    # -B, lest Python leave half-written bytecode of detlint's own modules behind.
    run = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.splitlines()[-1:], run.stderr) == (0, ["No findings in 2 files."], "")
    assert (project / FOLDER / "results.json").read_bytes() == before
    assert sorted(path.name for path in (project / FOLDER).iterdir()) == [".gitignore", "results.json"]
