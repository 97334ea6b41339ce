"""Changes the code of notebook cells inside the JSON text: outputs, metadata, key order and layout stay to the byte."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

_Span = tuple[int, int]
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_decode = json.JSONDecoder(strict=True).raw_decode


def rewrite_cells(raw: bytes, change: Callable[[int, str], str]) -> bytes:
    """Pass the source of every cell, with its number, through `change`, and write back those that it changes."""
    text = raw.decode("utf-8")
    pieces, position = [], 0
    for number, (start, end) in _sources(text):
        old, _ = _decode(text, start)
        joined = "".join(old) if isinstance(old, list) else old
        new = change(number, joined)
        if new != joined:
            written = _array(text, (start, end), new) if isinstance(old, list) else _string(text, new)
            pieces += [text[position:start], written]
            position = end
    return "".join([*pieces, text[position:]]).encode("utf-8")


def lines_of_cells(raw: bytes) -> dict[int, list[int]]:
    """Return, for each cell by number, the lines of the notebook's JSON on which the lines of its code begin."""
    text = raw.decode("utf-8")
    ends = [match.start() for match in re.finditer("\n", text)]
    return {number: list(_lines_of_source(text, start, ends)) for number, (start, _) in _sources(text)}


def _lines_of_source(text: str, start: int, ends: Sequence[int]) -> Iterator[int]:
    decoded, _ = _decode(text, start)
    pieces = [(decoded, start)]
    if isinstance(decoded, list):
        pieces = [(piece, place) for piece, (place, _) in zip(decoded, _members(text, start).values(), strict=True)]
    line, begins = bisect_left(ends, start) + 1, True
    for piece, place in pieces:
        line = bisect_left(ends, place) + 1
        for part in str(piece).splitlines(keepends=True):
            if begins:
                yield line
            begins = part.endswith("\n")  # a line of code may be spread over several strings
    if begins:
        yield line


def _sources(text: str) -> Iterator[tuple[int, _Span]]:
    """Yield number and place of the source of every cell; the numbers are those of `read_cells`."""
    document = _members(text, _skip(text, 0))
    sheets = document.get("worksheets")
    parts = [document]
    if sheets is not None and text[sheets[0]] == "[":
        parts = [_members(text, start) for start, _ in _members(text, sheets[0]).values()]
    number = 0
    for part in parts:
        for cell, _ in _members(text, part["cells"][0]).values():
            number += 1
            members = _members(text, cell)
            source = members.get("source", members.get("input"))
            if source is not None:
                yield number, source


def _members(text: str, start: int) -> dict[str | int, _Span]:
    """Return where the values of an object, by key, or of an array, by index, stand in valid JSON."""
    found: dict[str | int, _Span] = {}
    is_object = text[start] == "{"
    position = _skip(text, start + 1)
    while text[position] not in "]}":
        key: str | int = len(found)
        if is_object:
            key, position = _decode(text, position)
            position = _skip(text, _skip(text, position) + 1)  # over the colon
        _, end = _decode(text, position)
        found[key] = (position, end)
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank is not None else position


def _array(text: str, span: _Span, source: str) -> str:
    """Write a source as a list of lines, laid out as the old list; lines that stay keep their spelling."""
    start, end = span
    places = list(_members(text, start).values())
    first, last = places[0], places[-1]
    spelt = {_decode(text, place[0])[0]: text[slice(*place)] for place in places}
    before = text[start + 1 : first[0]]
    between = text[first[1] : places[1][0]] if len(places) > 1 else f",{before or ' '}"
    lines = (spelt.get(line) or _string(text, line) for line in source.splitlines(keepends=True))
    return f"[{before}{between.join(lines)}{text[last[1] : end]}"


def _string(text: str, value: str) -> str:
    """Write a string as the rest of the notebook does: with characters outside ASCII, or with escapes for them."""
    surrogates = any("\ud800" <= character <= "\udfff" for character in value)
    return json.dumps(value, ensure_ascii=text.isascii() or surrogates)
