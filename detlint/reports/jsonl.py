"""One JSON object a line, each a finding as in the JSON document; nothing for no findings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from detlint.findings import Finding
from detlint.reports.json import as_object
from detlint.reports.run_info import RunInfo


def render(findings: Sequence[Finding], run: RunInfo) -> str:
    """Return the findings, one a line."""
    return "".join(json.dumps(as_object(finding)) + "\n" for finding in findings)
