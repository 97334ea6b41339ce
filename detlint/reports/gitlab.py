"""A Code Quality report as GitLab merge requests show it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from detlint.findings import Finding, Severity
from detlint.reports.ci_paths import path_in_checkout
from detlint.reports.fingerprints import fingerprints
from detlint.reports.run_info import RunInfo

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return a JSON array, empty for no findings; suppressed ones are left out."""
    shown = [finding for finding in findings if finding.suppressed is None]
    entries = [_entry(*pair, run) for pair in zip(shown, fingerprints(shown, run), strict=True)]
    return json.dumps(entries, indent=2) + "\n"


def _entry(finding: Finding, fingerprint: str, run: RunInfo) -> dict[str, object]:
    where = finding.location
    cell = "" if where.cell is None else f"cell {where.cell}, line {where.line}: "
    begin, end = run.lines_in_file(where)
    path = path_in_checkout(where.path, run.root, "CI_PROJECT_DIR")
    return {
        "description": f"{cell}{finding.code} {finding.name}: {finding.message}",
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": path,
            "lines": {"begin": begin, "end": end},
        },
    }
