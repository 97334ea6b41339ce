"""Which finding is the same one as in the last run? Fingerprints that survive lines being moved."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo


def fingerprints(findings: Sequence[Finding], run: RunInfo) -> tuple[str, ...]:
    """Return one hexadecimal digest a finding, all different: of code, path, source text and its count.

    The text is the finding's line with its spacing made even; the count tells equal lines apart.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    digests = []
    for finding in findings:
        where = finding.location
        line = run.line(where.path, where.line, where.cell) or ""
        key = (finding.code, where.path.replace("\\", "/"), " ".join(line.split()))
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        digests.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return tuple(digests)
