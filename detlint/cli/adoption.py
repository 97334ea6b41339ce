"""What lets an old code base start with detlint: only what changed since a revision, only what no baseline knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detlint.config import ConfigResolver, enabled_rules
from detlint.files import write_atomically
from detlint.findings import Finding
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import discover
from detlint.reports.baseline import Baseline, read_baseline
from detlint.reports.run_info import RunInfo, SourceLines
from detlint.rulebook import load_rules

if TYPE_CHECKING:
    from detlint.linter.changes import Changes

_UNREADABLE = "DET001"


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


@dataclass(frozen=True, slots=True)
class Baselines:
    """`known` hides the findings that it lists; `target` is the file to write, made shorter if it is there (`old`)."""

    known: Baseline | None
    old: Baseline | None
    target: Path | None

    @classmethod
    def read(cls, known: Path | None, target: Path | None) -> Baselines:
        """Read what `--baseline` and `--write-baseline` name.

        Raises:
            UsageError: a baseline is missing or damaged.
        """
        return cls(
            None if known is None else read_baseline(known),
            read_baseline(target) if target is not None and target.exists() else None,
            target,
        )

    def new(self, findings: Sequence[Finding], run: RunInfo) -> tuple[Finding, ...]:
        """Return the findings that `--baseline` does not list."""
        return tuple(findings) if self.known is None else self.known.split(findings, run)[0]

    def unlisted(self, findings: Sequence[Finding], lines: SourceLines) -> tuple[Finding, ...]:
        """Return the findings that `--baseline` does not list, in source as it is at the moment."""
        return self.new(findings, RunInfo({}, files=0, seconds=0.0, root=Path.cwd(), source_lines=lines))

    def applied(self, result: LintResult, run: RunInfo, looked_for: Mapping[str, Collection[str]]) -> LintResult:
        """Write the file of `--write-baseline`, if asked to, and keep the findings that neither file lists.

        Of one that is there, what was `looked_for` (codes by file) and not found goes. It never grows, so that nothing
        new is hidden by writing it again. Both baselines see every finding: what one hides does not look mended to the
        other.
        """
        unlisted = set(self.new(result.findings, run))
        if self.target is not None:
            if self.old is None:
                written = Baseline.of(self.target, result.findings, run)
                unlisted = set()
            else:
                unread = {finding.location.path for finding in result.findings if finding.code == _UNREADABLE}
                checked = {path: codes for path, codes in looked_for.items() if path not in unread}
                new, met = self.old.split(result.findings, run)
                written = self.old.shrunk(met, checked, run)
                unlisted &= set(new)
            if not result.problems:  # findings are missing after an internal error
                write_atomically(self.target, written.text().encode("utf-8", "surrogatepass"))
                before = "" if self.old is None else f", before {self.old.counts.total()}"
                click.echo(f"{self.target}: findings listed: {written.counts.total()}{before}", err=True)
        return replace(result, findings=tuple(finding for finding in result.findings if finding in unlisted))


def looked_for(paths: Sequence[str], resolver: ConfigResolver) -> dict[str, list[str]]:
    """Return the rules that a run over `paths` reports where they find something, by the file's name in reports."""
    found = {}
    for file in discover(paths, resolver):
        config = resolver.for_file(file.path)
        rules = load_rules(config.rule_paths)
        codes = enabled_rules(config, rules, file.path)
        found[file.display] = [code for code in codes if rules[code].severity.rank >= config.severity.rank]
    return found
