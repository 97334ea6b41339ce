"""detlint finds what makes a PyTorch program give different results from the same input."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from detlint.version import __version__

if TYPE_CHECKING:
    from detlint.api import AuditReport, NotDeterministic, Sample, assert_deterministic, audit

__all__ = ["AuditReport", "NotDeterministic", "Sample", "__version__", "assert_deterministic", "audit"]

# public name → the module it is loaded from when first used
_LAZY = {
    "AuditReport": "detlint.api",
    "NotDeterministic": "detlint.api",
    "Sample": "detlint.api",
    "assert_deterministic": "detlint.api",
    "audit": "detlint.api",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'detlint' has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "xxhash"):
            raise
        from detlint.errors import UsageError

        raise UsageError(f"detlint.{name} needs {error.name}: pip install 'detlint[torch]'") from error


def __dir__() -> list[str]:
    return sorted(__all__)
