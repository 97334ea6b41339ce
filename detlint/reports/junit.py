"""JUnit XML: a test suite a file, a failed test case a finding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return the document; with no findings an empty `testsuites`. Suppressed findings are skipped cases."""
    suites = [
        _suite(path, list(group), run) for path, group in groupby(findings, key=lambda finding: finding.location.path)
    ]
    totals = _totals(findings)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="detlint" {totals}>', *suites]
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(path: str, findings: Sequence[Finding], run: RunInfo) -> str:
    cases = [_case(finding, run) for finding in findings]
    return "\n".join([f"  <testsuite name={_attribute(path)} {_totals(findings)}>", *cases, "  </testsuite>"])


def _totals(findings: Sequence[Finding]) -> str:
    skipped = sum(finding.suppressed is not None for finding in findings)
    return f'tests="{len(findings)}" failures="{len(findings) - skipped}" errors="0" skipped="{skipped}"'


def _case(finding: Finding, run: RunInfo) -> str:
    where = finding.location
    name = _attribute(f"{finding.code} {finding.name}")
    place = f'classname={_attribute(where.path)} file={_attribute(where.path)} line="{run.lines_in_file(where)[0]}"'
    return f"    <testcase name={name} {place}>\n      {_outcome(finding)}\n    </testcase>"


def _outcome(finding: Finding) -> str:
    if finding.suppressed is not None:
        return f"<skipped message={_attribute(finding.suppressed)}/>"
    details = f"{finding.location}: {finding.message}\n{finding.remedy}".rstrip()
    kind = _attribute(finding.severity.value)
    return f"<failure message={_attribute(finding.message)} type={kind}>{escape(_valid(details))}</failure>"


def _attribute(text: str) -> str:
    return quoteattr(_valid(text))


def _valid(text: str) -> str:
    """Spell out the characters that XML 1.0 cannot hold."""
    return "".join(
        character if _allowed(ord(character)) else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _allowed(point: int) -> bool:
    if point < 0x20:
        return point in (0x9, 0xA, 0xD)
    return not (0x7F <= point <= 0x9F or 0xD800 <= point <= 0xDFFF or point in (0xFFFE, 0xFFFF))
