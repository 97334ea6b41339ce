"""The formats that programs read: valid whatever the text holds, complete, and empty when there is nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifModel

from detlint.findings import Applicability, Finding, Location
from detlint.reports import LINT_FORMATS, renderer
from detlint.reports.run_info import RunInfo
from detlint.version import __version__

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "findings.json").read_text())


def loaded(style: str, findings: list[Finding] | tuple[Finding, ...], run: RunInfo) -> Any:
    return json.loads(renderer(style)(findings, run))


def sarif(findings: list[Finding] | tuple[Finding, ...], run: RunInfo) -> Any:
    text = renderer("sarif")(findings, run)
    SarifModel.model_validate_json(text)  # generated from the standard's schema
    return json.loads(text)["runs"][0]


def test_every_format_is_plain_text(findings: tuple[Finding, ...], hostile: Finding, run: RunInfo) -> None:
    for style in LINT_FORMATS:
        for report in (renderer(style)([*findings, hostile], run), renderer(style)([], run)):
            report.encode()
            assert report == "" or report.endswith("\n")
            assert "\x1b" not in report


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_json_is_as_documented(findings: tuple[Finding, ...], run: RunInfo) -> None:
    assert loaded("json", findings[:2], run) == {
        "version": 1,
        "tool": {"name": "detlint", "version": __version__},
        "findings": [
            {
                "code": "DET303",
                "name": "uninitialized-memory",
                "severity": "error",
                "message": "torch.empty is read before it is written",
                "path": "nb.ipynb",
                "line": 2,
                "column": 5,
                "end_line": 2,
                "end_column": 19,
                "cell": 3,
                "pass": [],
                "devices": [],
                "fix": None,
                "related": [],
                "url": "",
            },
            {
                "code": "DET202",
                "name": "functional-dropout-always-on",
                "severity": "warning",
                "message": "F.dropout drops at inference too",
                "path": "src/model.py",
                "line": 5,
                "column": 16,
                "end_line": 5,
                "end_column": 33,
                "pass": ["forward"],
                "devices": ["cpu", "cuda"],
                "fix": {
                    "description": "tie it to the mode",
                    "applicability": "unsafe",
                    "edits": [
                        {
                            "path": "src/model.py",
                            "line": 5,
                            "column": 32,
                            "end_line": 5,
                            "end_column": 32,
                            "text": ", training=self.training",
                        }
                    ],
                },
                "related": [
                    {
                        "path": "src/model.py",
                        "line": 3,
                        "column": 1,
                        "end_line": 3,
                        "end_column": 24,
                        "message": "the module's class",
                    }
                ],
                "url": "https://example.org/DET202",
            },
        ],
        "summary": {"files": 2, "findings": 2, "by_code": {"DET202": 1, "DET303": 1}, "seconds": 0.5},
    }


def test_json_follows_its_schema(findings: tuple[Finding, ...], hostile: Finding, run: RunInfo) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for report in (loaded("json", [*findings, hostile], run), loaded("json", [], run)):
        jsonschema.validate(report, SCHEMA)
        for field in ("version", "findings"):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({key: value for key, value in report.items() if key != field}, SCHEMA)


def test_json_lines_are_the_findings_of_the_document(findings: tuple[Finding, ...], run: RunInfo) -> None:
    lines = renderer("jsonl")(findings, run).splitlines()
    assert [json.loads(line) for line in lines] == loaded("json", findings, run)["findings"]
    assert loaded("json", findings, run)["findings"][2]["suppressed"] == "measured, harmless"


# --- SARIF -----------------------------------------------------------------------------------------------------------


def test_sarif_carries_the_rules_with_their_help(findings: tuple[Finding, ...], run: RunInfo) -> None:
    dropout, empty = sarif(findings, run)["tool"]["driver"]["rules"]
    assert dropout["id"] == "DET202"
    assert dropout["shortDescription"]["text"] == "functional dropout that also drops at inference"
    assert dropout["fullDescription"]["text"] == "It defaults to training=True."
    assert dropout["help"]["text"] == "It defaults to training=True.\n\nPass training=self.training."
    assert "```python\nimport f\nf.dropout(x)  # reported\n```" in dropout["help"]["markdown"]
    assert "f.dropout(y)" not in dropout["help"]["markdown"]
    assert dropout["defaultConfiguration"] == {"enabled": True, "level": "warning"}
    assert empty["defaultConfiguration"] == {"enabled": False, "level": "error"}
    assert dropout["helpUri"].startswith("https://")


def test_sarif_results(findings: tuple[Finding, ...], run: RunInfo) -> None:
    notebook, module, silenced, note = sarif(findings, run)["results"]
    assert [entry["level"] for entry in (notebook, module, silenced, note)] == ["error", "warning", "warning", "note"]
    assert (module["ruleId"], module["ruleIndex"], notebook["ruleIndex"]) == ("DET202", 0, 1)
    place = module["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/model.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 5, "startColumn": 16, "endLine": 5, "endColumn": 33}
    assert module["relatedLocations"][0]["message"]["text"] == "the module's class"
    assert "fixes" not in module, "not a safe one"
    assert findings[1].fix is not None
    safe = replace(findings[1], fix=replace(findings[1].fix, applicability=Applicability.SAFE))
    replacement = sarif([safe], run)["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["insertedContent"]["text"] == ", training=self.training"
    assert "suppressions" not in module
    assert silenced["suppressions"] == [{"kind": "inSource", "justification": "measured, harmless"}]
    assert notebook["message"]["text"].startswith("cell 3, line 2: ")
    assert notebook["locations"][0]["logicalLocations"][0]["name"] == "cell 3"


def test_sarif_root_and_paths(findings: tuple[Finding, ...], run: RunInfo, tmp_path: Path) -> None:
    def uri(path: str) -> dict[str, str]:
        report = sarif([replace(findings[1], location=Location(path, 1, 1, 1, 2))], replace(run, root=tmp_path / "a b"))
        assert report["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{tmp_path.as_uri()}/a%20b/"
        return dict(report["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"])

    relative = {"uriBaseId": "SRCROOT"}
    assert uri("m.py") == {"uri": "m.py", **relative}
    assert uri("my folder/ü#?.py") == {"uri": "my%20folder/%C3%BC%23%3F.py", **relative}
    assert uri("x/../m.py") == {"uri": "m.py", **relative}
    assert uri("../m.py") == {"uri": f"{tmp_path.as_uri()}/m.py"}
    assert uri("/other/m.py") == {"uri": "file:///other/m.py"}
    assert uri(str(tmp_path / "a b" / "m.py")) == {"uri": "m.py", **relative}


def test_an_empty_sarif_report(run: RunInfo) -> None:
    assert sarif([], run)["results"] == []


def test_fingerprints_stay_when_lines_move(findings: tuple[Finding, ...], run: RunInfo) -> None:
    def prints(found: list[Finding], lines: list[str]) -> list[str]:
        moved = replace(run, source_lines=lambda path, cell: lines)
        return [result["partialFingerprints"]["detlint/v1"] for result in sarif(found, moved)["results"]]

    def at(line: int) -> Finding:
        return replace(findings[1], location=Location("m.py", line, 1, line, 2))

    before = prints([at(1)], ["f(x)"])
    assert prints([at(3)], ["", "", "  f(x)  "]) == before, "moved and indented"
    assert prints([at(1)], ["f(y)"]) != before, "other text"
    twins = prints([at(1), at(2)], ["f(x)", "f(x)"])
    assert twins[0] == before[0]
    assert twins[1] != before[0], "the second of two equal lines is another finding"


# --- GitHub, GitLab, JUnit -------------------------------------------------------------------------------------------


def test_github_commands(findings: tuple[Finding, ...], run: RunInfo) -> None:
    assert renderer("github")(findings, run).splitlines() == [
        "::error title=DET303 uninitialized-memory,file=nb.ipynb,line=1"
        "::nb.ipynb:cell 3:2:5: torch.empty is read before it is written",
        "::warning title=DET202 functional-dropout-always-on,file=src/model.py,line=5,endLine=5,col=16,endColumn=33"
        "::src/model.py:5:16: F.dropout drops at inference too",
        "::notice title=DET202 functional-dropout-always-on,file=src/model.py,line=5,endLine=5,col=16,endColumn=33"
        "::src/model.py:5:16: F.dropout drops at inference too",
    ]


def test_github_leaves_out_columns_over_several_lines(findings: tuple[Finding, ...], run: RunInfo) -> None:
    long = replace(findings[1], location=Location("m.py", 1, 5, 3, 2))
    assert "file=m.py,line=1,endLine=3::" in renderer("github")([long], run)


def test_github_commands_cannot_be_broken_out_of(hostile: Finding, run: RunInfo) -> None:
    (line,) = renderer("github")([hostile], run).split("\n")[:-1]
    command, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
    assert command == "warning"
    assert [pair.partition("=")[0] for pair in properties.split(",")] == [
        "title",
        "file",
        "line",
        "endLine",
        "col",
        "endColumn",
    ]
    assert "a\\x1b[31m%0A::error::x" in message
    assert "%250A" in message


def test_gitlab_entries(findings: tuple[Finding, ...], hostile: Finding, run: RunInfo) -> None:
    entries = loaded("gitlab", [*findings, hostile], run)
    assert entries[1] == {
        "description": "DET202 functional-dropout-always-on: F.dropout drops at inference too",
        "check_name": "DET202",
        "fingerprint": entries[1]["fingerprint"],
        "severity": "major",
        "location": {"path": "src/model.py", "lines": {"begin": 5, "end": 5}},
    }
    assert [entry["severity"] for entry in entries] == ["critical", "major", "info", "major"]
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 4
    assert entries[0]["location"] == {"path": "nb.ipynb", "lines": {"begin": 1, "end": 1}}
    assert loaded("gitlab", [], run) == []


@pytest.mark.parametrize(("style", "variable"), [("gitlab", "CI_PROJECT_DIR"), ("github", "GITHUB_WORKSPACE")])
def test_servers_get_paths_from_the_top_of_the_checkout(
    findings: tuple[Finding, ...], run: RunInfo, style: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(run.root.parent))
    report = renderer(style)(findings[:1], run)
    assert f"{run.root.name}/{findings[0].location.path}" in report
    monkeypatch.setenv(variable, str(run.root / "elsewhere"))
    assert f"{run.root.name}/{findings[0].location.path}" not in renderer(style)(findings[:1], run)


def test_junit_cases(findings: tuple[Finding, ...], run: RunInfo) -> None:
    root = ElementTree.fromstring(renderer("junit")(findings, run))
    assert root.attrib == {"name": "detlint", "tests": "4", "failures": "3", "errors": "0", "skipped": "1"}
    notebook, module = root.findall("testsuite")
    assert (notebook.get("name"), module.get("name"), module.get("tests")) == ("nb.ipynb", "src/model.py", "3")
    failed, skipped, _ = module.findall("testcase")
    assert failed.attrib == {
        "name": "DET202 functional-dropout-always-on",
        "classname": "src/model.py",
        "file": "src/model.py",
        "line": "5",
    }
    failure = failed.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "F.dropout drops at inference too", "type": "warning"}
    assert failure.text == "src/model.py:5:16: F.dropout drops at inference too\nPass training=self.training."
    silenced = skipped.find("skipped")
    assert silenced is not None
    assert silenced.get("message") == "measured, harmless"


def test_junit_survives_any_text(hostile: Finding, run: RunInfo) -> None:
    root = ElementTree.fromstring(renderer("junit")([hostile], run))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "\\x1b[31m" in failure.attrib["message"]
    assert "<b>&\"'" in failure.attrib["message"]
    assert ElementTree.fromstring(renderer("junit")([], run)).attrib["tests"] == "0"
