"""SARIF 2.1.0, for GitHub code scanning and other viewers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from detlint.findings import Applicability, Edit, Finding, Fix, Location, Severity
from detlint.reports.fingerprints import fingerprints
from detlint.reports.rule_page import markdown
from detlint.reports.run_info import RunInfo
from detlint.rulebook import Rule
from detlint.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOMEPAGE = "https://github.com/detlint/detlint"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return one run with the rules in force, their help, and a result a finding."""
    codes = list(run.rules)
    driver = {
        "name": "detlint",
        "version": __version__,
        "informationUri": HOMEPAGE,
        "rules": [_rule(rule) for rule in run.rules.values()],
    }
    results = [
        _result(finding, digest, codes, run)
        for finding, digest in zip(findings, fingerprints(findings, run), strict=True)
    ]
    sarif_run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": _folder_uri(run.root)}},
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [sarif_run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\n{rule.fix}", "markdown": markdown(rule, examples=1)},
        **({"helpUri": rule.url} if rule.url else {}),  # rules of the user's own have no page
        "defaultConfiguration": {"enabled": rule.default, "level": _LEVELS[rule.severity]},
        "properties": {"tags": ["reproducibility", rule.family]},
    }


def _result(finding: Finding, digest: str, codes: Sequence[str], run: RunInfo) -> dict[str, Any]:
    where = finding.location
    cell = "" if where.cell is None else f"cell {where.cell}, line {where.line}: "
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{cell}{finding.message}"},
        "locations": [_location(where, run)],
        "partialFingerprints": {"detlint/v1": digest},
    }
    if finding.code in codes:
        result["ruleIndex"] = codes.index(finding.code)
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(related.location, run), "message": {"text": related.message}}
            for number, related in enumerate(finding.related, start=1)
        ]
    # viewers apply these at a click and know no grades, so only safe ones are passed on
    if finding.fix is not None and finding.fix.applicability is Applicability.SAFE and where.cell is None:
        result["fixes"] = [_fix(finding.fix, run.root)]
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.suppressed}]
    return result


def _location(where: Location, run: RunInfo) -> dict[str, Any]:
    """Return the place. SARIF counts lines in the file: in a notebook, name the cell and the line of its JSON."""
    artifact = {"artifactLocation": _artifact(where.path, run.root)}
    if where.cell is None:
        return {"physicalLocation": {**artifact, "region": _region(where)}}
    return {
        "physicalLocation": {**artifact, "region": {"startLine": run.lines_in_file(where)[0]}},
        "logicalLocations": [{"name": f"cell {where.cell}", "kind": "member"}],
    }


def _region(where: Location) -> dict[str, int]:
    return {
        "startLine": where.line,
        "startColumn": where.column,
        "endLine": where.end_line,
        "endColumn": where.end_column,
    }


def _fix(fix: Fix, root: Path) -> dict[str, Any]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.location.path, []).append(edit)
    changes = [
        {
            "artifactLocation": _artifact(path, root),
            "replacements": [
                {"deletedRegion": _region(edit.location), "insertedContent": {"text": edit.text}} for edit in edits
            ],
        }
        for path, edits in by_path.items()
    ]
    return {"description": {"text": fix.description}, "artifactChanges": changes}


def _artifact(path: str, root: Path) -> dict[str, str]:
    absolute = root / path
    try:
        relative = _normal(absolute).relative_to(root)
    except ValueError:
        return {"uri": _file_uri(_normal(absolute))}
    return {"uri": _quoted(relative), "uriBaseId": "SRCROOT"}


def _normal(path: Path) -> Path:
    """Resolve `..` in the text of `path` without following links."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def _folder_uri(folder: Path) -> str:
    return _file_uri(folder).rstrip("/") + "/"


def _file_uri(path: Path) -> str:
    text = _quoted(path)
    return f"file://{text}" if text.startswith("/") else f"file:///{text}"


def _quoted(path: PurePath) -> str:
    return quote(path.as_posix(), safe="/:", errors="backslashreplace")
