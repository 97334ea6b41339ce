"""The stable, versioned document of docs/schema/findings.json; lines and columns count from 1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from detlint.findings import Finding, Fix, Location, Related
from detlint.reports.run_info import RunInfo
from detlint.version import __version__

FORMAT_VERSION = 1
TOOL = {"name": "detlint", "version": __version__}


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return one JSON object with all findings and a summary."""
    counts = Counter(finding.code for finding in findings)
    document = {
        "version": FORMAT_VERSION,
        "tool": TOOL,
        "findings": [as_object(finding) for finding in findings],
        "summary": {
            "files": run.files,
            "findings": len(findings),
            "by_code": dict(sorted(counts.items())),
            "seconds": round(run.seconds, 3),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def as_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values; `cell` is there in notebooks only, `suppressed` on silenced ones."""
    fields: dict[str, Any] = {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        **_region(finding.location),
        "pass": list(finding.passes),
        "devices": list(finding.devices),
        "fix": None if finding.fix is None else _fix(finding.fix),
        "related": [_related(related) for related in finding.related],
        "url": finding.url,
    }
    if finding.suppressed is not None:
        fields["suppressed"] = finding.suppressed
    return fields


def _region(where: Location) -> dict[str, Any]:
    region = {
        "path": where.path,
        "line": where.line,
        "column": where.column,
        "end_line": where.end_line,
        "end_column": where.end_column,
    }
    return region if where.cell is None else {**region, "cell": where.cell}


def _related(related: Related) -> dict[str, Any]:
    return {**_region(related.location), "message": related.message}


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{**_region(edit.location), "text": edit.text} for edit in fix.edits]
    return {"description": fix.description, "applicability": fix.applicability.value, "edits": edits}
