"""Records of runs as users call them: the run-time half joined with the report for people."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detlint.errors import UsageError
from detlint.reports import comparison_json
from detlint.reports.comparison_text import ComparisonText
from detlint.runtime.options import check_allowed
from detlint.runtime.records import result
from detlint.runtime.records.archive import read_record
from detlint.runtime.records.comparing import compare_records
from detlint.runtime.records.record import Record
from detlint.runtime.records.recording import Recorder, record

if TYPE_CHECKING:
    from typing import TypeAlias

__all__ = ["Record", "RecordComparison", "Recorder", "compare", "record"]


@dataclass(frozen=True, repr=False)
class RecordComparison(result.RecordComparison):
    """What two records say of each other; prints itself."""

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values: the document of docs/schema/comparison.json."""
        return comparison_json.document(super().to_dict())

    def to_json(self) -> str:
        """Return the document of `to_dict` as text."""
        return comparison_json.render(self.to_dict())

    def to_text(self, *, color: bool = False) -> str:
        """Return the report for people."""
        return ComparisonText(self.to_dict(), color=color).render()

    def __str__(self) -> str:
        return self.to_text(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ).rstrip()


_Source: TypeAlias = "Record | Path | str"


def compare(one: _Source, two: _Source, *, allow: str = "rounding") -> RecordComparison:
    """Do two records agree, which operator or step departs first, and which differences could explain it?

    Args:
        one: a record, or the file that holds one.
        two: what to compare it with.
        allow: "rounding" or "bitwise": how far results may differ and still be `ok`.

    Raises:
        RecordError: a file is no record, or the records cannot be compared.
        UsageError: an argument makes no sense.
    """
    check_allowed(allow)
    names = _name(one, "the first record"), _name(two, "the second record")
    found = compare_records(_loaded(one), _loaded(two), names, allow)
    return RecordComparison(**{item.name: getattr(found, item.name) for item in fields(found)})


def _loaded(source: _Source) -> Record:
    if not isinstance(source, (Record, str, Path)):
        raise UsageError(f"compare: expected a record or the path of one, got {type(source).__name__}")
    return source if isinstance(source, Record) else read_record(Path(source))


def _name(source: _Source, otherwise: str) -> str:
    return otherwise if isinstance(source, Record) else str(source)
