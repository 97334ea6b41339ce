"""The cache answers only while nothing a result was worked out from has changed, and never breaks a run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.cache import FOLDER, Cache, clean
from detlint.linter.engine import lint_paths
from detlint.linter.jobs import Job, Options
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import discover

PROGRAM = (
    "import torch\nfrom helper import prepare\n\nif __name__ == '__main__':\n    prepare()\n    print(torch.rand(3))\n"
)
SEEDING = "import torch\n\ndef prepare():\n    torch.manual_seed(0)\n"
IDLE = "def prepare():\n    pass\n"


EVALUATION = """
import torch
from a.helper import Runner


class Evaluation(Runner):
    def predict(self, x):
        with torch.no_grad():
            return self.net(x)
"""
RUNNER = """
from torch import nn


class Runner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
        self.net.train()
"""


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (1_000_000_000, 1_000_000_000))  # old enough to be kept
    time.sleep(0.03)  # and not changed within a tick of the file system's clock


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pyproject.toml", "[tool.detlint]\n")
    write(tmp_path / "train.py", PROGRAM)
    write(tmp_path / "helper.py", IDLE)
    return tmp_path


def lint(cached: bool = True) -> LintResult:
    return lint_paths(["."], resolver=ConfigResolver(), jobs=1, cached=cached)


def held(project: Path) -> set[str]:
    """Return the files that a new run would take from the cache."""
    resolver = ConfigResolver()
    cache = Cache(project, Options())
    jobs = [Job(found.path, found.display, resolver.for_file(found.path)) for found in discover(["."], resolver)]
    return {job.display for job in jobs if cache.get(job) is not None}


def test_second_run_takes_everything_from_the_cache_and_says_the_same(project: Path) -> None:
    first = lint()
    assert [finding.code for finding in first.findings] == ["DET101"]
    assert held(project) == {"train.py", "helper.py"}
    assert lint().findings == first.findings == lint(cached=False).findings


CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "its own text": (lambda root: write(root / "train.py", PROGRAM + "\n"), {"helper.py"}),
    "a module it imports": (lambda root: write(root / "helper.py", SEEDING), set()),
    "a module that now shadows another": (
        lambda root: ((root / "helper").mkdir(), write(root / "helper" / "__init__.py", SEEDING)),
        {"helper.py"},
    ),
    "the configuration": (lambda root: write(root / "pyproject.toml", "[tool.detlint]\nignore = ['DET6']\n"), set()),
    "nothing": (lambda root: None, {"train.py", "helper.py"}),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_what_a_change_invalidates(project: Path, change: Callable[[Path], object], expected: set[str]) -> None:
    lint()
    change(project)
    assert held(project) & {"train.py", "helper.py"} == expected
    assert lint().findings == lint(cached=False).findings


def test_seeding_in_a_helper_is_noticed(project: Path) -> None:
    assert lint().findings
    write(project / "helper.py", SEEDING)
    assert not [finding for finding in lint().findings if finding.code == "DET101"]


def test_a_package_that_is_only_looked_for_may_change_and_may_not_go(project: Path) -> None:
    (project / "lib").mkdir()
    write(project / "lib" / "__init__.py", "")
    write(project / "lib" / "words.py", "NAMES = ['a', 'b']\n")
    write(project / "show.py", "from lib.words import NAMES\n\nfor name in NAMES:\n    print(name)\n")
    lint()
    assert "show.py" in held(project)
    write(project / "lib" / "__init__.py", "VERSION = 2\n")
    assert "show.py" in held(project)
    assert lint().findings == lint(cached=False).findings
    (project / "lib" / "__init__.py").unlink()
    assert "show.py" not in held(project)


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


def test_where_packages_begin_is_noticed(project: Path) -> None:
    (project / "pkg").mkdir()
    write(project / "pkg" / "tool.py", "import torch\n\nsetup_things()\nprint(torch.rand(3))\n")
    lint()
    write(project / "pkg" / "__init__.py", "")
    assert held(project) == {"train.py", "helper.py"}
    assert lint().findings == lint(cached=False).findings
    write(project / "pkg" / "__init__.py", "done = True\n")
    assert "pkg/tool.py" in held(project)


def test_where_projects_begin_is_noticed(project: Path) -> None:
    (project / "part").mkdir()
    write(project / "part" / "train.py", PROGRAM)
    write(project / "helper.py", SEEDING)
    assert not [finding for finding in lint().findings if finding.code == "DET101"]
    (project / "part" / ".git").mkdir()
    assert held(project) == {"train.py"}  # what helper.py seeds for is asked of all files of its project
    assert lint().findings == lint(cached=False).findings
    (project / "part" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert held(project) == {"train.py", "helper.py", "part/train.py"}


def test_a_second_script_beside_a_lone_one_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = "import random\n\ndef pick(rows):\n    return random.choice(rows)\n"
    write(tmp_path / "rows.py", draw)
    assert not lint().findings
    assert held(tmp_path) == {"rows.py"}
    write(tmp_path / "train.py", "from rows import pick\n\nif __name__ == '__main__':\n    print(pick([1, 2]))\n")
    assert held(tmp_path) == set()
    assert [finding.location.path for finding in lint().findings] == ["rows.py"]
    write(tmp_path / "train.py", "import random\nfrom rows import pick\n\nrandom.seed(0)\nprint(pick([1, 2]))\n")
    assert not lint().findings


def test_scripts_of_a_folder_above_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utils").mkdir()
    write(tmp_path / "utils" / "rows.py", "import random\n\ndef pick(rows):\n    return random.choice(rows)\n")
    lint()
    write(tmp_path / "train.py", "from utils.rows import pick\n\nprint(pick([1, 2]))\n")
    assert held(tmp_path) == set()
    assert [finding.location.path for finding in lint().findings] == ["utils/rows.py"]


def test_a_new_console_script_is_noticed_within_one_process(project: Path) -> None:
    write(project / "tool.py", "import torch\n\ndef run():\n    print(torch.rand(3))\n")
    assert "tool.py" not in {finding.location.path for finding in lint().findings}
    write(project / "pyproject.toml", "[tool.detlint]\n[project.scripts]\ntool = 'tool:run'\n")
    assert "tool.py" in {finding.location.path for finding in lint().findings}
    assert lint().findings == lint(cached=False).findings


def test_a_changed_rule_of_the_project_is_noticed_within_one_process(project: Path) -> None:
    rule = (
        "code = 'MINE001'\nname = 'mine'\nfamily = 'mine'\nseverity = 'error'\ndefault = true\nsummary = 's'\n"
        "message = 'first'\nwhy = 'w'\nfix = 'f'\ntriggers = ['torch.rand(size)']\n[match]\n"
    )
    write(project / "pyproject.toml", "[tool.detlint]\nrule-paths = ['mine.toml']\n")
    for wording in ("first", "second"):
        write(project / "mine.toml", rule.replace("first", wording))
        assert wording in {finding.message for finding in lint().findings}


def test_related_places_are_relative_to_the_current_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a").mkdir()
    (project / "b").mkdir()
    write(project / "evaluate.py", EVALUATION)
    write(project / "a" / "helper.py", RUNNER)
    for folder in ("a", "b"):
        monkeypatch.chdir(project / folder)
        cached, new = (
            lint_paths(["../evaluate.py"], resolver=ConfigResolver(), jobs=1, cached=cached).findings
            for cached in (True, False)
        )
        assert cached == new
        assert cached[0].related


@pytest.fixture
def table(project: Path) -> Path:
    """A project where whether `table.py` has a finding depends on who calls its function."""
    write(
        project / "table.py",
        "import torch.nn.functional as F\n\ndef resize(x):\n    return F.interpolate(x, size=3, mode='bilinear')\n",
    )
    write(project / "load.py", "from table import resize\n\ndef load(weights):\n    return resize(weights)\n")
    write(project / "other.py", "size = 3\n")
    return project


SEARCHED: dict[str, tuple[Callable[[Path], object], bool]] = {
    "a file without the name": (lambda root: write(root / "other.py", "size = 4\n"), True),
    "a new file without the name": (lambda root: write(root / "new.py", "size = 4\n"), True),
    "a file without the name that goes": (lambda root: (root / "other.py").unlink(), True),
    "a file that now holds the name": (lambda root: write(root / "other.py", "from table import resize\n"), False),
    "a file that held the name": (lambda root: write(root / "load.py", "size = 4\n"), False),
    "a file with the name that goes": (lambda root: (root / "load.py").unlink(), False),
    "what the file that holds the name does": (
        lambda root: write(root / "load.py", "from table import resize\n\ndef f(x):\n    return resize(x)\n"),
        False,
    ),
    "more files than are looked into": (
        lambda root: [write(root / f"new{number}.py", "size = 4\n") for number in range(40)],
        False,
    ),
}


@pytest.mark.parametrize(("change", "expected"), SEARCHED.values(), ids=SEARCHED.keys())
def test_what_a_search_through_all_files_depends_on(
    table: Path, change: Callable[[Path], object], expected: bool
) -> None:
    lint()
    assert "table.py" in held(table)
    change(table)
    assert ("table.py" in held(table)) is expected
    assert lint().findings == lint(cached=False).findings
    assert "table.py" in held(table)


def test_a_name_that_too_many_files_hold_depends_on_their_number(table: Path) -> None:
    for number in range(20):
        write(table / f"load{number}.py", "from table import resize\n\ndef load(weights):\n    resize(weights)\n")
    lint()
    write(table / "other.py", "size = 4\n")
    assert "table.py" in held(table)
    for number in range(20):
        (table / f"load{number}.py").unlink()
    assert "table.py" not in held(table)


def test_a_new_caller_in_another_file_counts(table: Path) -> None:
    assert "DET302" not in {finding.code for finding in lint().findings}
    assert "table.py" in held(table)
    write(table / "model.py", "from table import resize\n\ndef fuse(x):\n    return resize(x)\n")
    assert "table.py" not in held(table)
    assert [f.location.path for f in lint().findings if f.code == "DET302"] == ["table.py"]


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
