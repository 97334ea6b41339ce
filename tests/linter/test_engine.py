"""The same findings however a file is reached; a crash or a killed worker costs one file, never the run."""

from __future__ import annotations

import ast
import gc
import json
import multiprocessing
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.findings import Finding
from detlint.linter import file, workers
from detlint.linter.analysis.inference import Inference
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.project import Project
from detlint.linter.analysis.values import Value
from detlint.linter.engine import lint_paths, lint_stdin
from detlint.linter.jobs import Job, Options
from detlint.linter.source.index import Index
from detlint.linter.source.sources import SourceFile, SourceProblem
from detlint.rulebook import load_rules


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project made of all examples of all rules, which share modules of their own."""
    root = tmp_path_factory.mktemp("tree")
    (root / "pyproject.toml").write_text("")
    for rule in load_rules().values():
        for number, example in enumerate((*rule.bad, *rule.good)):
            folder = root / f"{rule.code.lower()}_{number}"
            for name, text in {**(example.files or {}), example.filename: example.code}.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    return root


def lint(*paths: Path, jobs: int = 1) -> tuple[Finding, ...]:
    result = lint_paths([str(path) for path in paths], resolver=ConfigResolver(isolated=True), jobs=jobs)
    assert result.problems == ()
    return result.findings


@pytest.fixture(scope="module")
def expected(tree: Path) -> tuple[Finding, ...]:
    return lint(tree)


def test_number_of_jobs_changes_nothing(tree: Path, expected: tuple[Finding, ...]) -> None:
    assert len(expected) > 100
    assert lint(tree, jobs=2) == expected
    assert lint(tree, jobs=4) == expected


def test_order_of_arguments_changes_nothing(tree: Path, expected: tuple[Finding, ...]) -> None:
    folders = sorted(tree.iterdir())
    random.Random(3).shuffle(folders)
    assert lint(*folders) == expected


def test_a_file_alone_gives_what_it_gives_within_the_tree(tree: Path, expected: tuple[Finding, ...]) -> None:
    files = sorted(tree.rglob("*.py"))
    for path in random.Random(5).sample(files, 60):
        within = [finding for finding in expected if finding.location.path == path.as_posix()]
        assert list(lint(path)) == within, path


@pytest.mark.parametrize("seed", ["1", "2"])
def test_hash_seed_changes_nothing(tree: Path, expected: tuple[Finding, ...], seed: str) -> None:
    command = [sys.executable, "-m", "detlint", str(tree), "--isolated", "--no-cache", "--format", "json"]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=False
    )
    found = [(f["path"], f["line"], f["column"], f["code"], f["message"]) for f in json.loads(run.stdout)["findings"]]
    assert found == [(f.location.path, f.location.line, f.location.column, f.code, f.message) for f in expected], (
        run.stderr
    )


def test_files_that_are_forgotten_free_themselves(tree: Path) -> None:
    folders = sorted(tree.iterdir())[::10]
    lint(folders[0])  # loads what stays in memory
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        lint(*folders[1:])
        gc.collect()
        kept_by_file = (ast.AST, Index, Inference, Value)  # the project itself may wait for the collector
        left = Counter(type(each).__qualname__ for each in gc.garbage if isinstance(each, kept_by_file))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == {}


def test_crash_of_a_check_is_reported_and_the_other_files_are_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = file._lint_module

    def crashing(module, rules, enabled, facts):  # type: ignore[no-untyped-def]
        if module.name == "bad":
            raise ZeroDivisionError("planted")
        return real(module, rules, enabled, facts)

    monkeypatch.setattr(file, "_lint_module", crashing)
    (tmp_path / "bad.py").write_text("x = 1  # detlint: ignore[DET202]\n")
    (tmp_path / "good.py").write_text("import torch.nn.functional as F\ny = F.dropout(x, 0.5)\n")
    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == ["DET202"]
    (problem,) = result.problems
    assert "bad.py" in problem
    assert "ZeroDivisionError: planted" in problem


@pytest.mark.parametrize(("depth", "is_blamed"), [(20, False), (800, True)])
def test_endless_recursion_is_blamed_on_files_that_nest_deep_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, is_blamed: bool
) -> None:
    def endless(*args: object) -> object:
        return endless(*args)

    monkeypatch.setattr(file, "_lint_module", endless)
    (tmp_path / "bad.py").write_text("x = 1" + " + 1" * depth + "\n")
    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == ["DET001"] * is_blamed
    assert ["RecursionError" in problem for problem in result.problems] == [True] * (not is_blamed)


def test_messages_name_lines_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "fit.py").write_text(
        "import torchvision\nfrom a import evaluate\n\ndef main(loader):\n    model = torchvision.models.resnet18()\n"
        "    model.train()\n    print(evaluate(model, loader))\n"
    )
    path = tmp_path / "a.py"
    path.write_text(
        "import torch\n\ndef evaluate(model, loader):\n    with torch.no_grad():\n"
        "        return [model(x).argmax(-1) for x in loader]\n"
    )
    (finding,) = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1).findings
    assert f"switched on in line 6 of {tmp_path / 'fit.py'}" in finding.message


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the planted crash is inherited by fork only")
@pytest.mark.parametrize("jobs", [1, 2])
def test_crash_outside_of_checks_is_reported_and_the_other_files_are_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    real = Project.begin

    def crashing(project: Project, source: SourceFile) -> Module | SourceProblem:
        if source.path.name == "f13.py":
            raise ZeroDivisionError("planted")
        return real(project, source)

    monkeypatch.setattr(Project, "begin", crashing)
    for number in range(24):
        (tmp_path / f"f{number:02}.py").write_text("import torch.nn.functional as F\ny = F.dropout(x, 0.5)\n")
    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(isolated=True), jobs=jobs)
    assert len(result.findings) == 23
    (problem,) = result.problems
    assert "f13.py: internal error: ZeroDivisionError: planted" in problem
    piped = lint_stdin(b"x = 1\n", "f13.py", resolver=ConfigResolver(isolated=True))
    assert "f13.py: internal error: ZeroDivisionError: planted" in piped.problems[0]


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the planted death is inherited by fork only")
def test_killed_worker_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(24):
        (tmp_path / f"f{number:02}.py").write_text("import torch.nn.functional as F\ny = F.dropout(x, 0.5)\n")
    real = workers.lint_source

    def dying(
        source: SourceFile | SourceProblem, config: object, project: Project, options: Options
    ) -> file.FileResult:
        if source.path.name == "f13.py":
            os._exit(9)
        return real(source, config, project, options)  # type: ignore[arg-type]

    monkeypatch.setattr(workers, "lint_source", dying)
    resolver = ConfigResolver(isolated=True)
    result = lint_paths([str(tmp_path)], resolver=resolver, jobs=2)
    assert len(result.findings) == 23
    (problem,) = result.problems
    assert "f13.py" in problem
    assert "died" in problem


def test_jobs_report_progress_in_full(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"f{number}.py").write_text("")
    for jobs in (1, 2):
        seen: list[tuple[int, int]] = []
        lint_paths(
            [str(tmp_path)],
            resolver=ConfigResolver(isolated=True),
            jobs=jobs,
            progress=lambda done, total, seen=seen: seen.append((done, total)),  # type: ignore[misc]
        )
        assert seen[-1] == (20, 20)


def test_job_is_picklable(tmp_path: Path) -> None:
    import pickle

    job = Job(tmp_path / "a.py", "a.py", ConfigResolver(isolated=True).for_folder(tmp_path))
    assert pickle.loads(pickle.dumps(job)) == job
