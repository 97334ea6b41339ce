"""A baseline hides what it lists, wherever that moved to, and nothing that is new."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from detlint.errors import UsageError
from detlint.findings import Finding, Location, Severity
from detlint.reports.baseline import Baseline, read_baseline
from detlint.reports.run_info import RunInfo
from detlint.rulebook import load_rules

RULES = load_rules()


def run_over(root: Path, files: dict[str, str]) -> RunInfo:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def lines(path: str, cell: int | None) -> Sequence[str]:
        return files[path].split("\n")

    return RunInfo(
        rules={code: RULES[code] for code in ("DET601", "DET602")},
        files=len(files),
        seconds=0.0,
        root=root,
        source_lines=lines,
    )


def found(code: str, path: str, line: int) -> Finding:
    return Finding(code, "name", Severity.WARNING, f"at {line}", Location(path, line, 1, line, 2))


def places(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    return [(finding.location.path, finding.location.line) for finding in findings]


FIRST = {"a.py": "one\ntwo\ntwo\n"}
KNOWN = [("a.py", 1), ("a.py", 2), ("a.py", 3)]
# the text later, its findings, the ones that are new
LATER = {
    "the same": ("one\ntwo\ntwo\n", [1, 2, 3], []),
    "moved": ("\n\none\n\ntwo\ntwo\n", [3, 5, 6], []),
    "other spaces": ("  one\nif x:\n\ttwo\n\ttwo\n", [1, 3, 4], []),
    "fixed": ("two\ntwo\n", [1, 2], []),
    "one more of a line": ("one\ntwo\ntwo\ntwo\n", [1, 2, 3, 4], [4]),
    "another line": ("one\ntwo\nthree\n", [1, 2, 3], [3]),
    "other text on the line": ("one()\ntwo\ntwo\n", [1, 2, 3], [1]),
}


@pytest.mark.parametrize(("text", "lines", "new"), LATER.values(), ids=LATER.keys())
def test_what_is_new(tmp_path: Path, text: str, lines: list[int], new: list[int]) -> None:
    path = tmp_path / "baseline.json"
    run = run_over(tmp_path, FIRST)
    path.write_text(Baseline.of(path, [found("DET601", *place) for place in KNOWN], run).text())
    run = run_over(tmp_path, {"a.py": text})
    shown, _ = read_baseline(path).split([found("DET601", "a.py", line) for line in lines], run)
    assert [finding.location.line for finding in shown] == new


def test_code_and_path_count(tmp_path: Path) -> None:
    run = run_over(tmp_path, {"a.py": "one\n", "b.py": "one\n"})
    baseline = Baseline.of(tmp_path / "x.json", [found("DET601", "a.py", 1)], run)
    others = [found("DET601", "b.py", 1), found("DET602", "a.py", 1)]
    assert baseline.split(others, run)[0] == tuple(others)


def test_paths_are_relative_to_the_baseline(tmp_path: Path) -> None:
    run = run_over(tmp_path, {"src/a.py": "one\n"})
    path = tmp_path / "baseline.json"
    path.write_text(Baseline.of(path, [found("DET601", "src/a.py", 1)], run).text())
    below = run_over(tmp_path / "src", {"a.py": "one\n"})
    assert read_baseline(path).split([found("DET601", "a.py", 1)], below)[0] == ()


def test_it_only_shrinks(tmp_path: Path) -> None:
    run = run_over(tmp_path, {"a.py": "one\ntwo\nthree\n", "b.py": "one\n", "gone.py": "one\n"})
    path = tmp_path / "baseline.json"
    known = [found("DET601", "a.py", 1), found("DET601", "a.py", 2), found("DET601", "b.py", 1)]
    baseline = Baseline.of(path, [*known, found("DET601", "gone.py", 1)], run)
    (tmp_path / "gone.py").unlink()
    new, met = baseline.split([found("DET601", "a.py", 1), found("DET601", "a.py", 3)], run)
    baseline.counts["DET202", "a.py", "one"] = 1
    shrunk = baseline.shrunk(met, {"a.py": ["DET601", "DET602"]}, run)
    assert places(new) == [("a.py", 3)]
    # b.py was not linted and DET202 not in force; gone.py is no more; line 2 is mended; line 3 is new and stays out
    assert shrunk.counts == {
        ("DET601", "a.py", "one"): 1,
        ("DET601", "b.py", "one"): 1,
        ("DET202", "a.py", "one"): 1,
    }


def test_the_text_is_sorted_and_read_back(tmp_path: Path) -> None:
    run = run_over(tmp_path, {"b.py": "one\none\n", "a.py": "“é”\n"})
    path = tmp_path / "baseline.json"
    findings = [found("DET601", "b.py", 1), found("DET601", "b.py", 2), found("DET202", "a.py", 1)]
    baseline = Baseline.of(path, findings, run)
    path.write_text(baseline.text())
    assert read_baseline(path) == baseline
    assert baseline.text() == Baseline.of(path, findings[::-1], run).text()
    assert baseline.text().index("a.py") < baseline.text().index("b.py")


DAMAGED = {
    "empty": b"",
    "truncated": b'{"version": 1, "findings": [',
    "another document": b"[]",
    "another version": b'{"version": 2, "findings": []}',
    "an entry without a count": b'{"version": 1, "findings": [{"code": "DET1", "path": "a", "line": "x"}]}',
    "a count that is none": b'{"version": 1, "findings": [{"code": "DET1", "path": "a", "line": "x", "count": "1"}]}',
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"baseline.json: not a baseline.*; restore it or write a new one") as caught:
        read_baseline(path)
    assert "\n" not in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--write-baseline"):
        read_baseline(tmp_path / "baseline.json")
