"""The errors a user can meet, each in one line that says what, where and what to do; and what keeps it to a line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

_LONGEST: Final = 300
"""Characters of a message of somebody else's."""


class DetlintError(Exception):
    """Something the user can put right; the command line prints its message and exits with 2."""


class UsageError(DetlintError):
    """A flag, a path or an argument that makes no sense."""


class ConfigError(DetlintError):
    """A configuration file that cannot be read or holds a key or value detlint does not know."""


class RuleError(DetlintError):
    """A file under `rules/` (or `rule-paths`) that is not valid."""


class AuditError(DetlintError):
    """An audit that could not start or finish: wrong sample, model that raised, no tensors in the output."""


class RecordError(DetlintError):
    """A record of a run that cannot be read: no such file, damaged, too large, or of a newer detlint."""


def one_line(error: BaseException) -> str:
    """Return type and first line of an exception that somebody else raised, or of the one it is wrapped around."""
    while isinstance(inner := getattr(error, "inner_exception", None), Exception):  # as torch.compile wraps them
        error = inner
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    told = lines[0] if len(lines[0]) <= _LONGEST else f"{lines[0][:_LONGEST]}…"
    return f"{type(error).__name__}: {told}"


def refusal(error: Exception) -> str:
    """Say how a model answered a run that it need not take."""
    return str(error) if isinstance(error, AuditError) else f"the model raises {one_line(error)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x' or 'y'?"` for the nearest of `known`, or an empty string."""
    names = list(dict.fromkeys(known))
    nearest = [name for name in names if name.lower() == word.lower()]
    nearest = nearest or difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if not nearest:
        return ""
    return "; did you mean " + " or ".join(repr(name) for name in nearest) + "?"


def first_few(names: Sequence[str], at_most: int = 4) -> str:
    """Name the first of many, and say how many more there are."""
    shown = ", ".join(names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown
