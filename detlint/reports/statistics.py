"""How often did each rule speak?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo


def render_statistics(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return one line a rule that spoke, most frequent first."""
    counts = Counter((finding.code, finding.name) for finding in findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    width = len(str(rows[0][1])) if rows else 0
    return "".join(f"{number:>{width}}  {code}  {name}\n" for (code, name), number in rows)
