"""How findings are shown: one module a format, each with `render(findings, run) -> str`.

Every renderer is a function of the same sorted list; none changes a finding. Heavy libraries stay inside
the modules that need them, so only the format asked for is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from detlint.findings import Finding
from detlint.reports.run_info import RunInfo

Renderer = Callable[[Sequence[Finding], RunInfo], str]

LINT_FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit")


def renderer(name: str) -> Renderer:
    """Return the renderer of one of `LINT_FORMATS`."""
    return cast("Renderer", import_module(f"detlint.reports.{name}").render)
