"""One line a finding, for editors and grep."""

from __future__ import annotations

from collections.abc import Sequence

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo
from detlint.reports.terminal import printable


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return `path:line:column: CODE name: message`, and nothing at all for no findings."""
    return "".join(f"{_line(finding)}\n" for finding in findings)


def _line(finding: Finding) -> str:
    silenced = "" if finding.suppressed is None else " (suppressed)"
    text = f"{finding.location}: {finding.code} {finding.name}: {finding.message}{silenced}"
    return printable(text)
