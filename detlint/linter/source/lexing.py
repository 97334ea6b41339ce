"""Where comments and strings are in source that may not even parse: patterns that never fail, at the speed of `re`."""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMENT = r"#[^\n]*"
# An unterminated triple-quoted string runs to the end of the file, any other one to the end of its line.
# The inner loops are written so that no two alternatives start alike: matching stays linear.
STRING = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"
)
_STRING_OR_COMMENT = re.compile(f"{STRING}|(?P<comment>{COMMENT})", re.DOTALL)


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) offsets of every comment; a `#` inside a string is none."""
    for token in _STRING_OR_COMMENT.finditer(text):
        if token["comment"] is not None:
            yield token.span()


def string_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) offsets of every string; quotes inside a comment begin none."""
    for token in _STRING_OR_COMMENT.finditer(text):
        if token["comment"] is None:
            yield token.span()
