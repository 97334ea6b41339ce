"""What lets an old code base start with detlint: only what changed since a revision, only what no baseline knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.config import ConfigResolver
from detlint.files import write_atomically
from detlint.linter.discovery import discover
from detlint.linter.result import LintResult
from detlint.reports.baseline import Baseline, read_baseline
from detlint.reports.run_info import RunInfo

if TYPE_CHECKING:
    from detlint.linter.changes import Changes


def changed_files(paths: Sequence[str], changes: Changes, resolver: ConfigResolver) -> list[str]:
    """Return the files behind `paths` that have changed lines."""
    return [str(found.path) for found in discover(paths, resolver) if changes.concern(found.path)]


def on_changed_lines(result: LintResult, changes: Changes) -> LintResult:
    """Keep the findings on changed lines."""
    here = Path.cwd()
    return replace(
        result,
        findings=tuple(changes.of(result.findings, here)),
        suppressed=tuple(changes.of(result.suppressed, here)),
    )


def beyond_baseline(result: LintResult, path: Path, run: RunInfo) -> LintResult:
    """Keep the findings that a baseline does not know."""
    new, _ = read_baseline(path).split(result.findings, run)
    return replace(result, findings=new)


def written_baseline(result: LintResult, path: Path, run: RunInfo, linted: Sequence[str]) -> LintResult:
    """Write a baseline, or take out of the one that is there what was not found any more; keep what it does not know.

    One that is there never grows, so that nothing new is hidden by writing it again.
    """
    if path.exists():
        old = read_baseline(path)
        new, met = old.split(result.findings, run)
        written = old.shrunk(met, linted, run)
    else:
        new, written = (), Baseline.of(path, result.findings, run)
    write_atomically(path, written.text().encode("utf-8", "surrogatepass"))
    return replace(result, findings=new)
