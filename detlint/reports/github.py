"""Workflow commands that GitHub Actions shows as annotations on the changed lines."""

from __future__ import annotations

from collections.abc import Sequence

from detlint.findings import Finding, Severity
from detlint.reports.ci_paths import path_in_checkout
from detlint.reports.run_info import RunInfo
from detlint.reports.terminal import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return one command a finding; suppressed ones are no annotations."""
    return "".join(f"{_command(finding, run)}\n" for finding in findings if finding.suppressed is None)


def _command(finding: Finding, run: RunInfo) -> str:
    where = finding.location
    path = path_in_checkout(where.path, run.root, "GITHUB_WORKSPACE")
    properties = {"title": f"{finding.code} {finding.name}", "file": path}
    if where.cell is None:
        properties |= {"line": str(where.line), "endLine": str(where.end_line)}
        # columns make sense to GitHub within one line only
        if where.line == where.end_line:
            properties |= {"col": str(where.column), "endColumn": str(where.end_column)}
    else:
        properties["line"] = str(run.lines_in_file(where)[0])
    written = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {written}::{_escaped(f'{where}: {finding.message}')}"


def _escaped(text: str) -> str:
    return "%0A".join(printable(line).replace("%", "%25") for line in text.splitlines())


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
