"""Which files do arguments mean?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detlint.config import ConfigResolver
from detlint.errors import UsageError
from detlint.linter.source.discovery import discover, display_path
from detlint.settings import Settings


def build(root: Path, files: Iterable[str] | dict[str, str]) -> None:
    for name, text in (files if isinstance(files, dict) else dict.fromkeys(files, "")).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(*arguments: str, **settings: object) -> list[str]:
    resolver = ConfigResolver(overrides=Settings(**settings))  # type: ignore[arg-type]
    return [file.display for file in discover(arguments, resolver)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders_are_searched_for_python_and_notebooks(here: Path) -> None:
    build(here, ["b.py", "a/c.ipynb", "a/b/d.py", "stub.pyi", "x.txt", "a.pyc", "setup.cfg", "py", "sub.py/e.py"])
    assert found(".") == ["a/b/d.py", "a/c.ipynb", "b.py", "sub.py/e.py"]


@pytest.mark.parametrize(
    "folder",
    [".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", "build", "dist"],
)
def test_default_excludes(here: Path, folder: str) -> None:
    build(here, [f"{folder}/a.py", f"src/{folder}/b.py", "ok.py"])
    assert found(".") == ["ok.py"]


def test_virtual_environments_are_known_by_their_marker(here: Path) -> None:
    build(here, ["my-env/pyvenv.cfg", "my-env/lib/a.py", "b.py"])
    assert found(".") == ["b.py"]
    assert found("my-env") == ["my-env/lib/a.py"]


def test_named_files_are_taken_whatever_excludes_say(here: Path) -> None:
    build(here, {"build/a.py": "", "x.py": "", ".gitignore": "x.py\n", "docs/conf.py": ""})
    assert found("build/a.py", "x.py", "docs/conf.py", exclude=("docs", "build")) == [
        "build/a.py",
        "docs/conf.py",
        "x.py",
    ]


def test_force_exclude_applies_to_named_files_and_folders(here: Path) -> None:
    build(here, ["build/a.py", "docs/conf.py", "docs/deep/conf.py", "x.py"])
    arguments = ("build/a.py", "docs/conf.py", "docs", "docs/deep", "x.py")
    assert found(*arguments, exclude=("/docs/", "build"), force_exclude=True) == ["x.py"]


@pytest.mark.parametrize("folder", ["build", "build/lib", "docs"])
def test_named_folders_are_searched_whatever_excludes_say(here: Path, folder: str) -> None:
    build(here, {f"{folder}/a.py": "", f"{folder}/venv/b.py": "", ".gitignore": "docs/\n", ".git/HEAD": ""})
    assert found(folder) == [f"{folder}/a.py"]


def test_files_that_are_not_python_are_passed_over(here: Path) -> None:
    script = "#!/usr/bin/env python3\nprint()\n"
    build(here, {"a.txt": script, "stub.pyi": "", "tool": script, "shell": "#!/bin/sh\n", "empty": "", "w.pyw": ""})
    assert found("a.txt", "stub.pyi", "tool", "shell", "empty", "w.pyw") == ["tool", "w.pyw"]
    assert found(".") == []


def test_nothing_named_means_nothing_found() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        pytest.param("gone/x.py", "No such file or directory", id="absent"),
        pytest.param("gone/../x.py", "No such file or directory", id="absent, with dots"),
        pytest.param("x" * 5000, "File name too long", id="too long"),
        pytest.param("a\0b", "", id="null byte"),
        pytest.param("loop.py", "Too many levels of symbolic links", id="link to itself"),
        pytest.param("file.py/x.py", "Not a directory", id="below a file"),
    ],
)
def test_an_argument_that_cannot_be_used(here: Path, argument: str, reason: str) -> None:
    build(here, ["file.py"])
    (here / "loop.py").symlink_to("loop.py")
    with pytest.raises(UsageError) as error:
        found(argument)
    assert str(error.value).startswith(f"{argument}: {reason}")


def test_a_broken_link_that_is_named(here: Path) -> None:
    (here / "x.py").symlink_to("nowhere.py")
    with pytest.raises(UsageError):
        found("x.py")
    assert found(".") == []


def test_each_real_file_once_in_fixed_order(here: Path) -> None:
    build(here, ["pkg/a.py", "pkg/b.py"])
    (here / "aa.py").symlink_to("pkg/a.py")
    (here / "linked").symlink_to("pkg")
    (here / "zz.py").symlink_to("/etc/hostname")
    arguments = [".", "pkg", "pkg/a.py", "./pkg/../pkg/b.py", "linked", "linked/a.py", "aa.py"]
    expected = ["pkg/a.py", "pkg/b.py", "zz.py"]
    assert found(*arguments) == expected
    assert found(*reversed(arguments)) == expected


def test_links_alone(here: Path) -> None:
    build(here, ["real/a.py"])
    (here / "tree").mkdir()
    (here / "tree" / "b.py").symlink_to("../real/a.py")
    (here / "tree" / "a.py").symlink_to("../real/a.py")
    (here / "tree" / "folder").symlink_to("../real")
    assert found("tree") == ["tree/a.py"]
    assert found("tree/folder") == ["tree/folder/a.py"]


def test_link_loops_end(here: Path) -> None:
    build(here, ["a/b/x.py"])
    (here / "a" / "b" / "up").symlink_to("..")
    (here / "a" / "self").symlink_to(".")
    assert found("a") == ["a/b/x.py"]
    # A link to itself is no file that could be passed over: reading it says what is wrong.
    (here / "a" / "l.py").symlink_to("l.py")
    assert found("a") == ["a/b/x.py", "a/l.py"]


def test_pipes_are_not_read(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    assert found(".", "pipe.py") == []


def test_display_is_relative_below_the_current_folder_only(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(here, ["a/x.py", "ab/y.py"])
    monkeypatch.chdir(here / "a")
    assert found("x.py", "../ab/y.py") == ["x.py", f"{here.as_posix()}/ab/y.py"]


def test_names_that_are_no_text_are_printable(here: Path) -> None:
    assert display_path(os.fsdecode(os.fsencode(here) + b"/caf\xe9.py"), here) == "caf\\udce9.py"


@pytest.mark.parametrize(
    ("ignores", "left"),
    [
        pytest.param({".gitignore": "b.py\n"}, ["a.py", "pkg/a.py"], id="name anywhere"),
        pytest.param({".gitignore": "/b.py\n"}, ["a.py", "pkg/a.py", "pkg/b.py"], id="anchored"),
        pytest.param({".gitignore": "pkg/\n"}, ["a.py", "b.py"], id="folder"),
        pytest.param({".gitignore": "*.py\n!a.py\n"}, ["a.py", "pkg/a.py"], id="negation"),
        pytest.param({".gitignore": "pkg/\n!pkg/a.py\n"}, ["a.py", "b.py"], id="no way back into a folder"),
        pytest.param({".gitignore": "*.py\n", "pkg/.gitignore": "!b.py\n"}, ["pkg/b.py"], id="nested wins"),
        pytest.param({".git/info/exclude": "a.py\n"}, ["b.py", "pkg/b.py"], id="exclude of the repository"),
        pytest.param(
            {".git/info/exclude": "a.py\n", ".gitignore": "!/a.py\n"}, ["a.py", "b.py", "pkg/b.py"], id="and its rank"
        ),
        pytest.param({".gitignore": "[z-a]\n\\\n!\nb.py\n"}, ["a.py", "pkg/a.py"], id="lines that are no patterns"),
        pytest.param({".gitignore": "# b.py\n\n   \na.py\r\n"}, ["b.py", "pkg/b.py"], id="comments and blanks"),
        pytest.param({"pkg/.gitignore": "/a.py\n"}, ["a.py", "b.py", "pkg/b.py"], id="nested and anchored"),
    ],
)
def test_gitignore(here: Path, ignores: dict[str, str], left: list[str]) -> None:
    build(here, {".git/HEAD": "", **dict.fromkeys(["a.py", "b.py", "pkg/a.py", "pkg/b.py"], ""), **ignores})
    assert found(".") == left
    assert found("pkg") == [name for name in left if name.startswith("pkg/")] or "pkg/" in ignores.get(".gitignore", "")
    assert found(".", respect_gitignore=False) == ["a.py", "b.py", "pkg/a.py", "pkg/b.py"]


def test_a_gitignore_that_is_no_text(here: Path) -> None:
    build(here, ["a.py", "b.py"])
    (here / ".gitignore").write_bytes(b"\xff\xfe\nb.py\n")
    assert found(".") == ["a.py"]


@pytest.mark.parametrize("argument", [".", "sub", "sub/deep", "sub/deep/gen"])
def test_exclude_of_a_configuration_below_is_relative_to_it(here: Path, argument: str) -> None:
    build(here, {"sub/detlint.toml": 'exclude = ["/gen"]', "sub/gen/a.py": "", "sub/b.py": "", "sub/deep/gen/c.py": ""})
    expected = {"sub/b.py", "sub/deep/gen/c.py"}
    assert set(found(argument)) == {name for name in expected if argument == "." or name.startswith(argument)}


def test_exclude_is_relative_to_its_configuration(here: Path) -> None:
    build(
        here,
        {
            "pyproject.toml": '[tool.detlint]\nextend-exclude = ["/gen", "*_pb2.py"]\n',
            **dict.fromkeys(["gen/a.py", "src/gen/b.py", "src/c_pb2.py", "d.py"], ""),
            "inner/detlint.toml": 'exclude = ["x.py"]\n',
            **dict.fromkeys(["inner/x.py", "inner/y_pb2.py"], ""),
        },
    )
    assert found(".") == ["d.py", "inner/y_pb2.py", "src/gen/b.py"]
    assert found("src") == ["src/gen/b.py"]


NAMES = st.sampled_from(["a", "b", "build2", "c.d"])
PATTERNS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "!", "/", "**/", "a/", "!/"]),
    st.sampled_from(["a", "b", "*", "a*", "?", "x.py", "*.py", "[ab]", "c.d", "a/b", "a/**/x.py"]),
    st.sampled_from(["", "", "/**", "/*"]),
    st.sampled_from(["", "", "/"]),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(st.lists(NAMES, max_size=3), min_size=1, max_size=6),
    ignores=st.dictionaries(
        st.sampled_from(["", "a/", "a/b/"]), st.lists(PATTERNS, min_size=1, max_size=4), max_size=3
    ),
)
def test_gitignore_means_what_git_means(paths: list[list[str]], ignores: dict[str, list[str]], here: Path) -> None:
    root = here / "repository"
    shutil.rmtree(root, ignore_errors=True)
    build(root, ["/".join([*path, "x.py"]) for path in paths])
    build(root, {f"{folder}.gitignore": "\n".join(lines) + "\n" for folder, lines in ignores.items()})
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    listing = subprocess.run(
        ["git", "-C", str(root), "-c", "core.excludesFile=", "ls-files", "-co", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found("repository") == [f"repository/{name}" for name in sorted(listing.stdout.split())]
