"""detlint finds what makes a PyTorch program give different results from the same input."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from detlint.version import __version__

if TYPE_CHECKING:
    from detlint.api import AuditReport, NotDeterministic, Sample, Tiling, assert_deterministic, audit
    from detlint.findings import Finding
    from detlint.linter.library import lint
    from detlint.records import Record, RecordComparison, Recorder, compare, record
    from detlint.runtime.deterministic import DeterminismWarning, deterministic
    from detlint.runtime.environment import read_environment

__all__ = [
    "AuditReport",
    "DeterminismWarning",
    "Finding",
    "NotDeterministic",
    "Record",
    "RecordComparison",
    "Recorder",
    "Sample",
    "Tiling",
    "__version__",
    "assert_deterministic",
    "audit",
    "compare",
    "deterministic",
    "lint",
    "read_environment",
    "record",
]

# public name → the module it is loaded from when first used
_LAZY = {
    "AuditReport": "detlint.api",
    "NotDeterministic": "detlint.api",
    "Sample": "detlint.api",
    "Tiling": "detlint.api",
    "assert_deterministic": "detlint.api",
    "audit": "detlint.api",
    "DeterminismWarning": "detlint.runtime.deterministic",
    "deterministic": "detlint.runtime.deterministic",
    "read_environment": "detlint.runtime.environment",
    "Record": "detlint.records",
    "RecordComparison": "detlint.records",
    "Recorder": "detlint.records",
    "compare": "detlint.records",
    "record": "detlint.records",
    "Finding": "detlint.findings",
    "lint": "detlint.linter.library",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'detlint' has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("safetensors", "torch", "xxhash"):
            raise
        from detlint.errors import UsageError

        raise UsageError(f"detlint.{name} needs {error.name}: pip install 'detlint[torch]'") from error


def __dir__() -> list[str]:
    return sorted(__all__)
