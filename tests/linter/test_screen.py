"""The screen loses nothing: calls are looked at by their last identifier, and findings are the same without that."""

from __future__ import annotations

import ast
import multiprocessing
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from detlint.config import ConfigResolver
from detlint.findings import Finding
from detlint.linter.engine import lint_paths
from detlint.linter.source.node_lists import NodeLists
from detlint.rulebook import load_rules
from detlint.settings import parse_settings

SCREEN = NodeLists.__dict__["calls_meaning"].func


class Unscreened(Mapping[str, list[ast.Call]]):
    """Every call of a file, whatever identifier is asked for; listed are the identifiers of before, for outlines."""

    def __init__(self, lists: NodeLists) -> None:
        self._calls = list(lists.of_type(ast.Call))
        self._names = tuple(SCREEN(lists))

    def __getitem__(self, name: str) -> list[ast.Call]:
        return self._calls

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def lint(path: Path) -> tuple[Finding, ...]:
    everything = parse_settings("all rules", {"select": ["ALL"]})
    jobs = None if multiprocessing.get_start_method() == "fork" else 1  # others start without what is patched here
    result = lint_paths([str(path)], resolver=ConfigResolver(isolated=True, overrides=everything), jobs=jobs)
    assert result.problems == ()
    return result.findings


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for rule in load_rules().values():
        for number, example in enumerate((*rule.bad, *rule.good)):
            folder = tmp_path / f"{rule.code.lower()}_{number}"
            for name, text in {**(example.files or {}), example.filename: example.code}.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_examples_of_all_rules(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screened = lint(examples)
    assert len(screened) > 300
    monkeypatch.setattr(NodeLists, "calls_meaning", property(Unscreened))
    assert lint(examples) == screened


@pytest.mark.parametrize("package", [torch.optim, torch.utils.data], ids=lambda p: p.__name__)
def test_installed_packages(package: object, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(str(getattr(package, "__file__", ""))).parent
    screened = lint(folder)
    monkeypatch.setattr(NodeLists, "calls_meaning", property(Unscreened))
    assert lint(folder) == screened
