"""The auditor as users call it: the run-time half joined with the reports, which know nothing of each other."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from detlint.errors import AuditError
from detlint.files import write_atomically
from detlint.reports import audit_json, sarif
from detlint.reports.audit_json import finding_object
from detlint.reports.audit_text import AuditText
from detlint.reports.run_info import RunInfo
from detlint.rulebook import load_rules
from detlint.runtime import audit as auditor
from detlint.runtime import report as records
from detlint.runtime.graph import save_graph
from detlint.runtime.options import Tiling
from detlint.runtime.repro_script import script
from detlint.runtime.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["AuditReport", "NotDeterministic", "Sample", "Tiling", "assert_deterministic", "audit"]

NotDeterministic = records.NotDeterministic

_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, repr=False)
class AuditReport(records.AuditReport):
    """What executed, what can differ, what did differ, and where it began; prints and saves itself."""

    def raise_if_failed(self) -> None:
        """Raise NotDeterministic, an AssertionError, that says what failed, where it began and what helps."""
        __tracebackhide__ = True  # pytest then shows the test's own line
        if not self.ok:
            error = NotDeterministic(AuditText(self.to_dict(), source_lines=source_lines).failure().rstrip())
            error.report = self
            raise error

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but the graph module as JSON values: the document of docs/schema/audit.json."""
        record = super().to_dict()
        record["findings"] = [finding_object(finding) for finding in self.findings]
        for name, probe in self.probes.items():
            record["probes"][name]["findings"] = [finding_object(finding) for finding in probe.findings]
        return audit_json.document(record)

    def to_json(self) -> str:
        """Return the document of `to_dict` as text."""
        return audit_json.render(self.to_dict())

    def to_sarif(self) -> str:
        """Return the findings as SARIF 2.1.0."""
        return sarif.render(self.findings, self.run_info())

    def to_text(self, *, color: bool = False, width: int = 100) -> str:
        """Return the report for people."""
        return AuditText(self.to_dict(), source_lines=source_lines, color=color, width=width).render()

    def to_html(self, path: Path | str) -> None:
        """Write the report as one HTML file that needs no other."""
        from detlint.reports import audit_html

        write_atomically(Path(path), audit_html.render(self.to_dict(), source_lines).encode())

    def save_graph(self, path: Path | str) -> None:
        """Draw the annotated graph, hazards in yellow and the divergence in red, as `.svg` or `.dot`.

        Raises:
            AuditError: there is no graph, or pydot or graphviz is missing; says why.
        """
        if self.graph is None:
            raise AuditError(f"{path}: there is no graph to draw: {self.graph_reason}")
        save_graph(self.graph, Path(path))

    def save_repro(self, path: Path | str, probe: str | None = None) -> None:
        """Write a script that shows a difference again: the operator that departs, its inputs as small as possible.

        Args:
            path: the script; it needs nothing but torch, and exits with 1 where the difference shows.
            probe: whose difference; that of the first probe that can be told by one operator if None.

        Raises:
            AuditError: there is no such difference, or no script can show it; says why.
            UsageError: there is no such probe in the report.
        """
        write_atomically(Path(path), script(self.repro(probe)).encode())

    def run_info(self) -> RunInfo:
        """What renderers of findings want to know about the run."""
        files = {finding.location.path for finding in self.findings}
        return RunInfo(load_rules(), len(files), self.seconds, Path.cwd(), source_lines)

    def __str__(self) -> str:
        return self.to_text(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ).rstrip()

    def _repr_html_(self) -> str:
        from detlint.reports import audit_html

        return audit_html.body(self.to_dict(), source_lines)


def source_lines(path: str, cell: int | None) -> Sequence[str]:
    """Return the lines of a file as Python last read it, those of notebook cells too."""
    return [line.rstrip("\n") for line in linecache.getlines(path)]


def _reported(run: Callable[_Arguments, records.AuditReport]) -> Callable[_Arguments, AuditReport]:
    @functools.wraps(run)
    def audit(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> AuditReport:
        record = run(*args, **kwargs)
        return AuditReport(**{item.name: getattr(record, item.name) for item in fields(record)})

    return audit


def _asserted(run: Callable[_Arguments, records.AuditReport]) -> Callable[_Arguments, AuditReport]:
    @functools.wraps(run, assigned=())
    def assert_deterministic(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> AuditReport:
        """Audit, and raise `NotDeterministic` (an AssertionError) that says what failed; for tests.

        Takes the arguments of `audit` and returns its report.
        """
        __tracebackhide__ = True
        report = _reported(run)(*args, **kwargs)
        report.raise_if_failed()
        return report

    return assert_deterministic


audit = _reported(auditor.audit)
assert_deterministic = _asserted(auditor.audit)
