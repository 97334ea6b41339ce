"""The labels and judged findings of benchmarks/: well formed, of rules that exist, in two sets, each large enough."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from detlint.findings import Finding, Location, Related, Severity
from detlint.rulebook import load_rules

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import accuracy
from archives import is_read
from judged import JUDGED, SETS, VERDICTS, read_judged

DOCUMENTS = sorted(accuracy.LABELS.glob("*.toml"), key=lambda path: path.name)
FILES = accuracy.read_labels(accuracy.LABELS)
FINDINGS = read_judged(JUDGED)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_labelled_file_is_well_formed(file: accuracy.LabelledFile) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert file.archive.lower().startswith(f"{file.package}-{file.version}".lower())
    assert file.archive.endswith((".whl", ".tar.gz"))
    assert file.path.endswith((".py", ".ipynb"))
    assert is_read(file.path)
    rules = load_rules()
    seen = set()
    for label in file.labels:
        place = (label.cell, label.line, label.code)
        assert place not in seen, f"labelled twice: {place}"
        seen.add(place)
        assert re.fullmatch(r"DET[1-6]\d\d", label.code)
        assert label.code not in rules or rules[label.code].default, "labels are of rules that are on"
        assert (label.cell is not None) == file.path.endswith(".ipynb")
        assert isinstance(label.certain, bool)
        assert all(line >= 1 and line != label.line for line in label.also)
        assert label.line >= 1
        assert 10 <= len(label.reason) <= 120, "a reason is one clause"


def test_files_are_labelled_once() -> None:
    assert [name for name, count in Counter(file.name for file in FILES).items() if count > 1] == []


def test_a_document_is_named_after_its_package() -> None:
    named = {f"{file.package}-{file.version}.toml" for file in FILES}
    assert [path.name for path in DOCUMENTS] == sorted(named)


def test_there_is_enough_of_both_sets() -> None:
    files = Counter(file.split for file in FILES)
    labels = Counter(file.split for file in FILES for label in file.labels if label.certain)
    assert all(files[split] >= 100 for split in accuracy.SPLITS)
    assert all(labels[split] >= 50 for split in accuracy.SPLITS)


def test_a_finding_beside_every_label_is_counted_once() -> None:
    labels = (accuracy.Label(3, "DET202", True, "dropped"), accuracy.Label(9, "DET601", False, "disputed", also=(8,)))
    file = accuracy.LabelledFile("p", "1", "p-1.tar.gz", "p.py", "0" * 64, labels)
    findings = [_finding(line, code) for line, code in ((3, "DET202"), (8, "DET601"), (9, "DET602"))]
    score = accuracy.Score()
    score.add(file, findings)
    assert (score.true, score.neutral, score.false) == ({"DET202": 1}, {"DET601": 1}, {"DET602": 1})
    assert (score.found, score.missed) == ({"DET202": 1}, {})
    assert [note.split()[0] for note in score.notes] == ["false"]
    score.add(file, [])
    assert score.missed == {"DET202": 1}


def test_a_label_is_found_where_a_finding_lists_its_place_among_the_others() -> None:
    labels = (accuracy.Label(3, "DET306", True, "added"), accuracy.Label(5, "DET306", True, "added again"))
    file = accuracy.LabelledFile("p", "1", "p-1.tar.gz", "p.py", "0" * 64, labels)
    score = accuracy.Score()
    score.add(file, [_finding(3, "DET306", 5)])
    assert (score.found, score.missed, score.true) == ({"DET306": 2}, {}, {"DET306": 1})
    score.add(file, [_finding(9, "DET306", 5)])
    assert (score.missed, score.false) == ({"DET306": 1}, {"DET306": 1})


def test_judged_findings_are_well_formed_and_judged_once() -> None:
    rules = load_rules()
    for finding in FINDINGS:
        assert finding.verdict in VERDICTS
        assert is_read(finding.path)
        assert re.fullmatch(r"DET[1-6]\d\d", finding.code)
        assert finding.code not in rules or rules[finding.code].default
        assert finding.line >= 1
        assert finding.why
    places = Counter((each.archive, each.path, each.cell, each.line, each.code) for each in FINDINGS)
    assert max(places.values()) == 1


def test_a_package_is_opened_or_sealed() -> None:
    opened = {(finding.archive, finding.opened) for finding in FINDINGS}
    assert len(opened) == len({archive for archive, _ in opened})
    assert {finding.set for finding in FINDINGS} == set(SETS)


def test_nobody_judges_a_package_that_holds_labels() -> None:
    labelled = {_normal(file.package) for file in FILES}
    assert [each.archive.name for each in FINDINGS if _normal(each.archive.package) in labelled] == []


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _finding(line: int, code: str, *others: int) -> Finding:
    related = tuple(Related(_location(other), "another") for other in others)
    return Finding(code=code, name="", message="", location=_location(line), severity=Severity.WARNING, related=related)


def _location(line: int) -> Location:
    return Location("p.py", line, 1, line, 2)
