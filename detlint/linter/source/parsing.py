"""Text → syntax tree, or the reason why not in words that help: merge conflict, Python 2, a newer Python, or plain."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CONFLICT = tuple(re.compile(pattern, re.MULTILINE) for pattern in (r"^<{7} ", r"^={7}$", r"^>{7} "))

_PYTHON_2_MESSAGES = (
    "Missing parentheses in call to 'print'",
    "Missing parentheses in call to 'exec'",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer literals",
)
_PYTHON_2_LINE = re.compile(
    r"""^\s*(?:print\s+[\w"'%]|exec\s+\w+\s+in\b|raise\s+[\w.]+\s*,|except\s+[\w.()\s,]+,\s*\w+\s*:)"""
    r"""|`[^`]*`|\b\d+[lL]\b|\s<>\s|\bur["']"""
)

# Syntax by the release that brought it, recognised on the line at which an older parser stops.
_NEWER: tuple[tuple[tuple[int, int], re.Pattern[str]], ...] = (
    ((3, 11), re.compile(r"^\s*except\s*\*|\[(?:[^\]]*,)?\s*\*\w")),
    ((3, 12), re.compile(r"^\s*type\s+\w+\s*(?:\[.*)?=|^\s*(?:async\s+)?def\s+\w+\s*\[|^\s*class\s+\w+\s*\[")),
    # An f-string that uses its own quotes inside a replacement field.
    ((3, 12), re.compile(r"""\b[rR]?[fF][rR]?(["'])(?:(?!\1).)*\{[^}"']*\1[^}]*\}""")),
    # One whose replacement field goes on in the next line.
    ((3, 12), re.compile(r"""\b[rR]?[fF][rR]?(["'])(?!\1)(?:(?!\1).)*\{[^}"']*$""")),
    ((3, 14), re.compile(r"""\b(?:[rR][tT]|[tT][rR]?)["']|^\s*except\s+\w[\w.]*(?:\s*,\s*\w[\w.]*){2,}\s*:""")),
    # In Python 2 a name for the exception stands behind the comma, and those are in lower case.
    ((3, 14), re.compile(r"^\s*except\s+\w[\w.]*\s*,\s*(?:\w+\.)*[A-Z]\w*\s*:")),
)
_NEWER_MESSAGE = "f-string expression part cannot include"
_TOO_DEEP = ("too many nested parentheses", "too many levels of indentation", "too many statically nested blocks")


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why a text is no Python; line and column count from 1, in characters."""

    reason: str
    line: int
    column: int


def parse(text: str) -> ast.Module | SyntaxProblem:
    """Parse a program; never raises, never warns."""
    null = text.find("\0")
    if null >= 0:
        return SyntaxProblem("null byte", text.count("\n", 0, null) + 1, null - text.rfind("\n", 0, null))
    try:
        with _no_warnings():
            return ast.parse(text)
    except SyntaxError as error:
        return _explain(error, text)
    except (RecursionError, MemoryError):
        return SyntaxProblem("too deeply nested to be parsed", 1, 1)
    except ValueError as error:  # characters that are no text: lone surrogates
        return SyntaxProblem(f"cannot be parsed: {error}", 1, 1)


def parse_expression(text: str) -> ast.expr | None:
    """Parse a quoted annotation and the like; never raises, never warns, gives None for what is no expression."""
    try:
        with _no_warnings():
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Python's warnings about what is parsed (an escape that means nothing) are the author's, not detlint's user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _explain(error: SyntaxError, text: str) -> SyntaxProblem:
    start, *others = (pattern.search(text) for pattern in _CONFLICT)
    if start is not None and all(others):
        return SyntaxProblem("merge-conflict marker", text.count("\n", 0, start.start()) + 1, 1)
    lines = text.split("\n")
    number = min(max(error.lineno or 1, 1), len(lines))
    line = lines[number - 1]
    column = min(max(error.offset or 1, 1), len(line) + 1)
    # The patterns below take long on long lines, which nobody writes by hand anyway.
    return SyntaxProblem(_reason(error.msg or "invalid syntax", line[:1000]), number, column)


def _reason(message: str, line: str) -> str:
    if message.startswith(_TOO_DEEP):
        return f"too deeply nested to be parsed ({message})"
    running = sys.version_info[:2]
    for version, pattern in _NEWER:
        if running < version and (pattern.search(line) or (version == (3, 12) and message.startswith(_NEWER_MESSAGE))):
            return (
                f"valid for a newer Python than the running {running[0]}.{running[1]}: "
                f"this syntax came with {version[0]}.{version[1]} ({message})"
            )
    if message.startswith(_PYTHON_2_MESSAGES) or _PYTHON_2_LINE.search(line):
        return f"Python 2 syntax ({message})"
    return message
