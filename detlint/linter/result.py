"""What a lint run returns."""

from __future__ import annotations

from dataclasses import dataclass

from detlint.findings import Finding


@dataclass(frozen=True, slots=True)
class LintResult:
    """Findings of a run, sorted; comments silenced `suppressed` ones; `problems` are internal errors, one a line."""

    findings: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    files: int
    seconds: float
    problems: tuple[str, ...] = ()
