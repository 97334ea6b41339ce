"""For people: where, which rule, what, the source with carets under it, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from detlint.findings import Finding, Location, Severity
from detlint.reports.run_info import RunInfo
from detlint.reports.terminal import excerpt, printable, styled

_SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_RELATED_SHOWN = 3


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return one block a finding and a closing line."""
    blocks = ["\n".join(_block(finding, run)) for finding in findings]
    return "\n\n".join([*blocks, _summary(findings, run)]) + "\n"


def _block(finding: Finding, run: RunInfo) -> Iterator[str]:
    where = styled(printable(str(finding.location)), "bold", color=run.color)
    code = styled(finding.code, _SEVERITY_STYLES[finding.severity], color=run.color)
    yield f"{where} {code} {finding.name}"
    yield f"  {finding.severity.value}: {printable(finding.message)}"
    margin = " " * len(str(finding.location.line))
    yield from _source(finding.location, margin, run)
    if finding.remedy:
        yield _remark(margin, "help", finding.remedy, run)
    for related in finding.related[:_RELATED_SHOWN]:
        yield _remark(margin, "note", f"{related.location}: {related.message}", run)
    if len(finding.related) > _RELATED_SHOWN:
        yield _remark(margin, "note", f"and {len(finding.related) - _RELATED_SHOWN} more places", run)
    if finding.suppressed is not None:
        yield _remark(margin, "suppressed", finding.suppressed or "no reason given", run)


def _source(where: Location, margin: str, run: RunInfo) -> Iterator[str]:
    line = run.line(where.path, where.line, where.cell)
    if line is None:
        return
    end = where.end_column if where.end_line == where.line else len(line) + 1
    bar = styled("|", "bold blue", color=run.color)
    number = styled(str(where.line), "bold blue", color=run.color)
    shown, carets = excerpt(line, where.column - 1, end - 1, run.width - len(margin) - 5)
    yield f"  {margin} {bar}"
    yield f"  {number} {bar} {shown}"
    yield f"  {margin} {bar} {styled(carets, 'bold red', color=run.color)}"


def _remark(margin: str, label: str, text: str, run: RunInfo) -> str:
    sign = styled("=", "bold blue", color=run.color)
    return f"  {margin} {sign} {styled(label, 'bold', color=run.color)}: {printable(text)}"


def _summary(findings: Sequence[Finding], run: RunInfo) -> str:
    files = _count(run.files, "file") + (f" ({run.listed} in the baseline)" if run.listed else "")
    shown = [finding for finding in findings if finding.suppressed is None]
    if not shown:
        return f"No findings in {files}."
    counts = Counter(finding.severity for finding in shown)
    levels = ", ".join(_count(counts[level], level.value) for level in Severity if counts[level])
    hit = len({finding.location.path for finding in shown})
    return f"{_count(len(shown), 'finding')} ({levels}) in {hit} of {files}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 or noun == Severity.INFO.value else f"{number} {noun}s"
