"""What may be written to a terminal: no text quoted from a file can move the cursor, colour or reorder it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_STYLES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "blue": "34", "cyan": "36"}
_TAB = "    "
_ELLIPSIS = "…"


def printable(text: str) -> str:
    """Spell out control, format and line-separating characters of `text` (`\\x1b`), and widen tabs."""
    return text if text.isascii() and text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character == "\t":
        return _TAB
    # control, format (bidirectional overrides, zero width), surrogate, private, unassigned, line separators
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character


def width_of(text: str) -> int:
    """How many terminal cells does `text` take? Two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def styled(text: str, style: str, *, color: bool) -> str:
    """Wrap `text` in the terminal codes of `style` ("bold red") where colour is wanted."""
    if not color:
        return text
    codes = ";".join(_STYLES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def excerpt(line: str, start: int, end: int, width: int) -> tuple[str, str]:
    """Return a line of source and the carets under its characters `start` to `end` (from 0, end exclusive).

    A line wider than `width` is cut around the carets.
    """
    shown = [_printable(character) for character in line.rstrip()]
    start = min(start, len(shown))
    end = max(start + 1, min(end, len(shown)))
    first, last = _window([width_of(piece) for piece in shown], start, end, width)
    head = _ELLIPSIS if first > 0 else ""
    tail = _ELLIPSIS if last < len(shown) else ""
    before = width_of(head) + _total(shown[first:start])
    under = max(1, _total(shown[start : min(end, last)]))
    return head + "".join(shown[first:last]) + tail, " " * before + "^" * under


def _total(pieces: Sequence[str]) -> int:
    return sum(map(width_of, pieces))


def _window(widths: Sequence[int], start: int, end: int, width: int) -> tuple[int, int]:
    """Return the part of a line to show: all, or about `width` cells with the carets in their left third."""
    if sum(widths) <= width:
        return 0, len(widths)
    room = width - 2
    first = start
    lead = max(room // 3, room - sum(widths[start:]))
    while first > 0 and lead >= widths[first - 1]:
        first -= 1
        lead -= widths[first]
    last, used = first, 0
    while last < len(widths) and used + widths[last] <= room:
        used += widths[last]
        last += 1
    return first, last
