"""Makes edits in the bytes of a file: all else stays as it is, line endings, encoding and outputs of notebooks."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence

from detlint.findings import Edit, Finding
from detlint.linter.source.notebook_edits import rewrite_cells
from detlint.linter.source.sources import SourceFile

_LINE_END = re.compile(r"\r\n|\r|\n")


def edited(source: SourceFile, content: bytes, findings: Sequence[Finding]) -> bytes:
    """Return `content`, the bytes of `source`, with the fixes of `findings` made; they must not overlap."""
    edits = {edit for finding in findings if finding.fix is not None for edit in finding.fix.edits}
    return apply_edits(source, content, edits)


def apply_edits(source: SourceFile, content: bytes, edits: Iterable[Edit]) -> bytes:
    """Return `content`, the bytes of `source`, with edits made that do not overlap."""
    if not source.is_notebook:
        return _in_text(content.decode(source.encoding), edits).encode(source.encoding)
    by_cell: dict[int, list[Edit]] = {}
    for edit in edits:
        by_cell.setdefault(edit.location.cell or 0, []).append(edit)
    return rewrite_cells(content, lambda number, text: _in_text(text, by_cell.get(number, ())))


def lines_of(text: str) -> list[str]:
    """Split where Python ends a line, keeping the endings; form feeds and the like end none."""
    return io.StringIO(text, newline="").readlines()


def _in_text(text: str, edits: Iterable[Edit]) -> str:
    lines = lines_of(text)
    usual = _endings(text)[:1] or ["\n"]
    for edit in sorted(edits, key=lambda edit: (edit.location, edit.text), reverse=True):
        place = edit.location
        lines += [""] * (place.end_line - len(lines))  # the line behind a final line end
        first, last = place.line - 1, place.end_line - 1
        head, tail = lines[first][: place.column - 1], lines[last][place.end_column - 1 :]
        # Each line keeps its own ending, in files that mix them too; a line that is added ends like the one it is at.
        endings = _endings("".join(lines[first : last + 1])) or usual
        pieces = edit.text.split("\n")
        ends = [*endings[: len(pieces) - 1], *endings[-1:] * (len(pieces) - 1 - len(endings))]
        new = "".join(piece + end for piece, end in zip(pieces, [*ends, ""], strict=True))
        lines[first : last + 1] = lines_of(head + new + tail)
    return "".join(lines)


def _endings(text: str) -> list[str]:
    return _LINE_END.findall(text)
