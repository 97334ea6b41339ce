"""The auditor as users call it: the run-time half joined with the reports, which know nothing of each other."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ParamSpec

from detlint.runtime import audit as auditor
from detlint.runtime import report as records
from detlint.runtime.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AuditReport", "NotDeterministic", "Sample", "assert_deterministic", "audit"]

NotDeterministic = records.NotDeterministic

_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class AuditReport(records.AuditReport):
    """What executed, what can differ, what did differ, and where it began; prints and saves itself."""


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
        report = _reported(run)(*args, **kwargs)
        report.raise_if_failed()
        return report

    return assert_deterministic


audit = _reported(auditor.audit)
assert_deterministic = _asserted(auditor.audit)
