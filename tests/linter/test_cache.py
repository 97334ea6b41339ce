"""The cache answers only while nothing a result was worked out from has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from tests.linter.cached import PROGRAM, SEEDING, held, lint, write

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
