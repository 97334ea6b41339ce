"""Which finding is the same one as in the last run? Identities and fingerprints that survive lines being moved."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo

# Code, path, and the finding's line with its spacing made even.
Identity = tuple[str, str, str]


def identity(finding: Finding, run: RunInfo) -> Identity:
    """Return what stays the same about a finding while its line is moved; equal lines have one identity."""
    where = finding.location
    line = run.line(where.path, where.line, where.cell) or ""
    return finding.code, where.path.replace("\\", "/"), " ".join(line.split())


def fingerprints(findings: Sequence[Finding], run: RunInfo) -> tuple[str, ...]:
    """Return one hexadecimal digest a finding, all different: of its identity, and a count where it has equals."""
    seen: Counter[Identity] = Counter()
    digests = []
    for finding in findings:
        key = identity(finding, run)
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        digests.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return tuple(digests)
