"""The stable, versioned document of docs/schema/comparison.json: what two records say of each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from detlint.reports.json import FORMAT_VERSION, TOOL


def document(record: Mapping[str, Any]) -> dict[str, Any]:
    """Put the comparison under the version of the format and the tool."""
    return {"version": FORMAT_VERSION, "tool": TOOL, **record}


def render(comparison: Mapping[str, Any]) -> str:
    """Return the document as text."""
    return json.dumps(comparison, indent=2, allow_nan=False) + "\n"
