"""`--since`: only what lies on lines that changed, as git tells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from detlint.errors import UsageError
from detlint.linter.changes import changes_since

TEN = "".join(f"x{number} = {number}\n" for number in range(1, 11))


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text(TEN)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text(TEN)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def changed(folder: Path, revision: str = "HEAD") -> dict[str, list[int] | None]:
    lines = changes_since(revision, folder).lines
    top = folder.resolve()
    return {
        path.relative_to(top).as_posix(): None if ranges is None else [line for each in ranges for line in each]
        for path, ranges in lines.items()
    }


def test_nothing_changed(repository: Path) -> None:
    assert changed(repository) == {}


def test_changed_added_and_removed_lines(repository: Path) -> None:
    lines = TEN.splitlines(keepends=True)
    lines[1] = "y = 2\n"
    del lines[4]
    lines += ["z = 1\n", "z = 2\n"]
    (repository / "a.py").write_text("".join(lines))
    assert changed(repository) == {"a.py": [2, 10, 11]}


def test_committed_staged_and_untracked_files(repository: Path) -> None:
    (repository / "a.py").write_text("first = 1\n" + TEN)
    git(repository, "commit", "-qam", "second")
    (repository / "sub" / "b.py").write_text("staged = 1\n" + TEN)
    git(repository, "add", ".")
    (repository / "new.py").write_text(TEN)
    (repository / ".gitignore").write_text("ignored.py\n")
    (repository / "ignored.py").write_text(TEN)
    assert changed(repository, "HEAD~1") == {"a.py": [1], "sub/b.py": [1], ".gitignore": None, "new.py": None}


def test_what_others_did_on_the_branch_is_no_change_here(repository: Path) -> None:
    git(repository, "checkout", "-qb", "trunk")
    (repository / "a.py").write_text("theirs = 1\n" + TEN.replace("x5 = 5", "x5 = 6"))
    git(repository, "commit", "-qam", "theirs")
    git(repository, "checkout", "-qb", "mine", "HEAD~1")
    assert changed(repository, "trunk") == {}
    (repository / "sub" / "b.py").write_text("mine = 1\n" + TEN)
    assert changed(repository, "trunk") == {"sub/b.py": [1]}


def test_branches_without_a_common_commit_are_compared_as_they_are(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    (repository / "a.py").write_text(TEN + "last = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "another root")
    git(repository, "branch", "root")
    git(repository, "checkout", "-qf", "root")
    first = subprocess.run(
        ["git", "rev-list", "--max-parents=0", "--all"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.split()
    assert {str(changed(repository, each)) for each in first} == {"{}", "{'a.py': [11]}"}


def test_a_renamed_file_has_only_its_changed_lines(repository: Path) -> None:
    git(repository, "mv", "a.py", "c.py")
    (repository / "c.py").write_text(TEN + "z = 1\n")
    assert changed(repository) == {"c.py": [11]}


@pytest.mark.parametrize(
    "name", ["ä ö.py", 'q"u.py', "tab\t.py", "b/b.py", "-x.py", '日"本.py', 'caf"é.py', "back\\é.py", "byte\udcff.py"]
)
def test_names_that_git_writes_in_its_own_way(repository: Path, name: str) -> None:
    path = repository / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(TEN)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    path.write_text(TEN + "z = 1\n")
    assert changed(repository) == {name: [11]}


def test_text_that_looks_like_a_diff(repository: Path) -> None:
    text = '"""\n++ b/sub/b.py\n@@ -1 +5 @@\ndiff --git a/x b/x\n"""\n'
    (repository / "a.py").write_text(TEN + text)
    assert changed(repository) == {"a.py": [11, 12, 13, 14, 15]}


def test_from_a_folder_below(repository: Path) -> None:
    (repository / "a.py").write_text("first = 1\n" + TEN)
    assert list(changes_since("HEAD", repository / "sub").lines) == [(repository / "a.py").resolve()]


def test_settings_of_the_user_do_not_matter(repository: Path) -> None:
    for key, value in {"diff.noprefix": "true", "diff.external": "false", "color.ui": "always"}.items():
        git(repository, "config", key, value)
    (repository / "a.py").write_text("first = 1\n" + TEN)
    assert changed(repository) == {"a.py": [1]}


def test_nothing_that_the_repository_configures_is_run(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.py filter=evil\n")
    for key in ("clean", "process"):
        git(repository, "config", f"filter.evil.{key}", "touch PWNED; cat")
    git(repository, "config", "filter.evil.required", "true")
    git(repository, "config", "core.fsmonitor", "touch PWNED")
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch PWNED\n")
    hook.chmod(0o755)
    (repository / "a.py").write_text("first = 1\n" + TEN)
    os.utime(repository / "sub" / "b.py")
    assert changed(repository) == {"a.py": [1], ".gitattributes": None}
    assert not (repository / "PWNED").exists()


def test_a_filter_that_cannot_be_switched_off(repository: Path) -> None:
    with (repository / ".git" / "config").open("a") as stream:
        stream.write('[filter "a=b"]\n\tclean = cat\n')
    with pytest.raises(UsageError, match="filter 'a=b' cannot be switched off"):
        changes_since("HEAD", repository)


@pytest.mark.parametrize("revision", ["nope", "--all", "", "HEAD:a.py"])
def test_unknown_revision(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError, match="no such git revision"):
        changes_since(revision, repository)


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git repository"):
        changes_since("HEAD", tmp_path)
