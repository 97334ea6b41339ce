"""`detlint.lint`: the linter as a function, for notebooks, tests and other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.linter.result import LintResult
from detlint.settings import Settings


def lint(
    *paths: str | Path,
    config: Path | str | None = None,
    isolated: bool = False,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    jobs: int = 1,
) -> LintResult:
    """Which findings are there in these files and folders (none: the current folder)?

    The arguments mean what the flags of the same names mean; text is split at commas as well.

    Raises:
        DetlintError: a path, a rule or a configuration that makes no sense; one line.
    """
    overrides = Settings(select=_selectors(select), ignore=_selectors(ignore))
    file = None if config is None else Path(config)
    resolver = ConfigResolver(file=file, isolated=isolated, overrides=overrides)
    return lint_paths([str(path) for path in paths] or ["."], resolver=resolver, jobs=jobs)


def _selectors(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return tuple(word.strip() for word in given.split(",")) if isinstance(given, str) else tuple(given)
