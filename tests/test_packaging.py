"""The wheel, the hook and the README, as strangers meet them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DROPOUT = "import torch.nn.functional as F\n\n\ndef forward(self, x):\n    return F.dropout(x, 0.5)\n"
TIED = DROPOUT.replace("0.5)", "0.5, training=self.training)")


def run(
    args: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None, timeout: int = 600
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=timeout)


def checked(args: Sequence[str | Path], cwd: Path) -> str:
    """Run a command that must succeed and return what it printed."""
    done = run(args, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where pip can reach no package index, so that no other failure is taken for that."""
    folder = tmp_path_factory.mktemp("index")
    done = run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder, "hatchling"], folder)
    if done.returncode:
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def wheel(index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    checked([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], folder)
    (built,) = folder.glob("detlint-*.whl")
    return built


def test_the_wheel_holds_the_rules_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    rules = {path.name for path in (ROOT / "rules").glob("*.toml")}
    assert {name.removeprefix("detlint/_rules/") for name in names if name.startswith("detlint/_rules/")} == rules
    assert "detlint/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"detlint"}


def test_an_install_without_torch_lints(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    checked([python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel], tmp_path)
    assert run([python, "-c", "import torch"], tmp_path).returncode == 1
    (tmp_path / "model.py").write_text(DROPOUT)
    done = run([tmp_path / "env" / "bin" / "detlint", "--isolated", "model.py"], tmp_path)
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.startswith("model.py:5:12 DET202 ")
    rules = run([python, "-m", "detlint", "rules"], tmp_path)
    assert len(rules.stdout.splitlines()) == len(list((ROOT / "rules").glob("DET*.toml")))


@pytest.mark.usefixtures("index")
def test_the_hook_blocks_and_passes(tmp_path: Path) -> None:
    """pre-commit installs detlint from a clone of this tree, as it would from its address."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    source, project = tmp_path / "detlint", tmp_path / "project"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "build", "dist", "shared"),
    )
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        checked([*git, *command], source)
    revision = checked(["git", "rev-parse", "HEAD"], source).strip()

    project.mkdir()
    checked([*git, "init", "-q"], project)
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {source}\n    rev: {revision}\n    hooks:\n      - id: detlint\n"
    )
    (project / "pyproject.toml").write_text('[tool.detlint]\nextend-exclude = ["vendored"]\n')
    (project / "vendored").mkdir()
    (project / "vendored" / "model.py").write_text(DROPOUT)
    (project / "notes.md").write_text("F.dropout(x, 0.5)\n")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}

    def hook(text: str) -> subprocess.CompletedProcess[str]:
        (project / "model.py").write_text(text)
        checked([*git, "add", "-A"], project)
        return run([sys.executable, "-m", "pre_commit", "run", "--all-files"], project, environment)

    blocked = hook(DROPOUT)
    assert blocked.returncode == 1, blocked.stdout + blocked.stderr
    assert "model.py:5:12 DET202" in blocked.stdout
    assert "vendored" not in blocked.stdout
    passed = hook(TIED)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    installed = [path.name for path in (tmp_path / "home").rglob("site-packages/*")]
    assert "detlint" in installed
    assert not any(name.startswith(("torch", "nvidia", "numpy")) for name in installed)


def fenced(heading: str) -> str:
    """Return the block that follows `<!-- heading -->` in the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {heading} -->\n```[a-z]*\n(.*?)\n```\n", readme, re.DOTALL)
    assert found is not None, f"README.md has no block marked {heading}"
    return found[1]


def test_the_readme_has_two_commands_and_ci_runs_the_second() -> None:
    install, test = fenced("install"), fenced("test")
    for command, extra in ((install, "[torch]"), (test, "[dev]")):
        assert command.startswith("python3 -m venv .venv && ")
        assert f'-c constraints.txt -e ".{extra}"' in command
        assert "\n" not in command
    script = (ROOT / ".ci" / "run").read_text()
    extraction = re.search(r"command=\$\((.*)\)\n", script)
    assert extraction is not None
    assert checked(["bash", "-c", extraction[1]], ROOT).strip() == test


def test_the_readme_shows_what_the_examples_really_give() -> None:
    done = run([sys.executable, "-m", "detlint", "--isolated", "--select", "DET202", "examples/train.py"], ROOT)
    block = done.stdout.split("\n\n")[0]
    assert block.startswith("examples/train.py:")
    assert block in fenced("output")


def test_the_repaired_example_is_clean() -> None:
    done = run([sys.executable, "-m", "detlint", "--isolated", "examples/train_fixed.py"], ROOT)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")


@pytest.mark.parametrize(
    "name", ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs/README.md", "docs/configuration.md"]
)
def test_links_inside_the_documentation_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"
