"""The stable, versioned document of docs/schema/audit.json: all that an audit found but the graph module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from detlint.findings import Finding
from detlint.reports.json import FORMAT_VERSION, TOOL, as_object

_ORDER = (
    "ok",
    "failures",
    "model",
    "allow",
    "strict",
    "seconds",
    "probes",
    "findings",
    "blind_spots",
    "problems",
    "graph_reason",
    "environment",
    "events",
)


def document(record: Mapping[str, object]) -> dict[str, Any]:
    """Put the parts of a report in order, under the version of the format and the tool."""
    return {"version": FORMAT_VERSION, "tool": TOOL, **{name: record[name] for name in _ORDER}}


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as the linter's JSON has it, with what only an audit knows."""
    return {**as_object(finding), "remedy": finding.remedy, "op": finding.op, "module": finding.module}


def render(report: Mapping[str, Any]) -> str:
    """Return the document as text."""
    return json.dumps(report, indent=2, allow_nan=False) + "\n"
