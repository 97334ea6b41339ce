"""What a file says: bytes → text → syntax tree, and from places in the tree to places in the file.

Nothing here raises because of what a file contains: whatever cannot be read or parsed becomes a `SourceProblem`.
"""

from __future__ import annotations

import ast
import codecs
import io
import os
import re
import tokenize
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from detlint.findings import Edit, Location
from detlint.linter.source import notebooks
from detlint.linter.source.parsing import SyntaxProblem, parse

# A syntax tree takes about 270 times the memory of its text: 10 MB of code, 2.7 GB.
MAX_CODE = 5 * 2**20
MAX_FILE = 200 * 2**20  # most of a big notebook are its outputs

# Line, column, end line, end column as `ast` counts them: lines from 1, columns in UTF-8 bytes from 0.
Span = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a file, or one cell of a notebook, cannot be checked, and where."""

    path: Path
    location: Location
    reason: str


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One file as Python sees it: `text` is decoded and its lines end in a bare newline.

    `path` is absolute, `display` is how reports name it. `cells` is empty for anything but a notebook, whose `text` is
    that of its code cells, one after the other; `problems` are the cells that had to be left out of it.
    """

    path: Path
    display: str
    text: str
    encoding: str
    cells: tuple[notebooks.Cell, ...] = ()
    problems: tuple[SourceProblem, ...] = ()

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix == notebooks.NOTEBOOK

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of `text` as `ast` numbers them (form feeds and the like end no line), without line endings."""
        return tuple(self.text.split("\n"))

    def tree(self) -> ast.Module | SourceProblem:
        """Parse the text; a new tree at every call."""
        parsed = parse(self.text)
        return self._problem_at(parsed) if isinstance(parsed, SyntaxProblem) else parsed

    def problem(self, reason: str) -> SourceProblem:
        """Return a problem with the file as a whole."""
        return _whole_file(self.path, self.display, reason)

    def location(self, where: ast.AST | Span) -> Location:
        """Return the place of a syntax node (or of a span in its terms) as users see it: characters, from 1."""
        line, column, end_line, end_column = _span(where) if isinstance(where, ast.AST) else where
        cell = self._cell(line)
        before, number = (0, None) if cell is None else (cell.first_line - 1, cell.number)
        return Location(
            self.display,
            line - before,
            self._character(line, column) + 1,
            end_line - before,
            self._character(end_line, end_column) + 1,
            number,
        )

    def place(self, line: int, column: int, length: int) -> Location:
        """Return the location of `length` characters of `text`; `line` and `column` count characters, from 1."""
        cell = self._cell(line)
        before, number = (0, None) if cell is None else (cell.first_line - 1, cell.number)
        column += self._indent(line)
        return Location(self.display, line - before, column, line - before, column + length, number)

    def edit(self, place: Location, text: str) -> Edit:
        """Return the edit that puts `text`, written as `self.text` is, at a place of the file."""
        margin = next((cell.margin for cell in self.cells if cell.number == place.cell), "")
        return Edit(place, re.sub(r"\n(?!\n)", f"\n{margin}", text) if margin else text)

    def line_of(self, location: Location) -> int:
        """Return the line of `text` at which a location of this file starts."""
        for cell in self.cells:
            if cell.number == location.cell:
                return cell.first_line + location.line - 1
        return location.line

    def end_of_cell(self, line: int) -> int:
        """Return the last line of the cell that a line of `text` belongs to; outside notebooks, of the file."""
        cell = self._cell(line)
        return len(self.lines) if cell is None else cell.first_line + cell.text.count("\n")

    def _cell(self, line: int) -> notebooks.Cell | None:
        if not self.cells:
            return None
        return self.cells[max(0, bisect_right(self.cells, line, key=lambda cell: cell.first_line) - 1)]

    def _character(self, line: int, column: int) -> int:
        """Turn a column in UTF-8 bytes into one in characters of the file."""
        indent = self._indent(line)
        if self._is_ascii or not 0 < line <= len(self.lines):
            return column + indent
        prefix = self.lines[line - 1].encode("utf-8", "surrogatepass")[:column]
        return len(prefix.decode("utf-8", "replace")) + indent

    def _indent(self, line: int) -> int:
        """Return how far a line of `text` was moved to the left."""
        cell = self._cell(line)
        return 0 if cell is None else len(cell.margin_of(line - cell.first_line + 1))

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii()

    def _problem_at(self, found: SyntaxProblem) -> SourceProblem:
        return SourceProblem(self.path, self.place(found.line, found.column, 1), found.reason)


def read_source(path: Path, display: str) -> SourceFile | SourceProblem:
    """Read a file from disk; one that cannot be read is a problem at its first line."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_FILE:
                return _too_large(path, display, size, MAX_FILE)
            raw = stream.read()
    except IsADirectoryError:
        return _whole_file(path, display, "a folder whose content cannot be listed")
    except OSError as error:
        return _whole_file(path, display, f"cannot be read: {error.strerror or error}")
    return source_from_bytes(raw, path, display)


def source_from_bytes(raw: bytes, path: Path, display: str) -> SourceFile | SourceProblem:
    """Decode what a file holds; a name that ends in `.ipynb` makes it a notebook."""
    if path.suffix == notebooks.NOTEBOOK:
        return _notebook(raw, path, display)
    if len(raw) > MAX_CODE:
        return _too_large(path, display, len(raw), MAX_CODE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoding = _declared_encoding(raw)
            text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        before = _universal_newlines(error.object[: error.start].decode(encoding, "replace"))
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        byte = error.object[error.start : error.start + 1].hex()
        declared = encoding.removesuffix("-sig")
        reason = f"byte 0x{byte} is not valid {declared}; declare the file's encoding or save it as UTF-8"
        return SourceProblem(path, Location(display, line, column, line, column + 1), reason)
    except (SyntaxError, LookupError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        return _whole_file(path, display, f"cannot be decoded: {reason}")
    return SourceFile(path, display, _universal_newlines(text), encoding)


def _notebook(raw: bytes, path: Path, display: str) -> SourceFile | SourceProblem:
    """Join the cells of a notebook to one program; a cell that does not parse is a problem and becomes blank."""
    try:
        cells = notebooks.read_cells(raw)
    except notebooks.NotebookError as error:
        return _whole_file(path, display, str(error))
    size = sum(len(cell.text) for cell in cells)
    if size > MAX_CODE:
        return _too_large(path, display, size, MAX_CODE)
    program, problems = [], []
    for cell in cells:
        text = cell.text
        parsed = parse(text)
        if isinstance(parsed, SyntaxProblem):
            line, column = parsed.line, parsed.column + len(cell.margin_of(parsed.line))
            place = Location(display, line, column, line, column + 1, cell.number)
            problems.append(SourceProblem(path, place, parsed.reason))
            text = "\n" * text.count("\n")
        program.append(text)
    return SourceFile(path, display, "\n".join(program), "utf-8", tuple(cells), tuple(problems))


def _declared_encoding(raw: bytes) -> str:
    """Return the encoding that PEP 263 says; most files have neither mark nor cookie, so look for those first."""
    second_line_end = raw.find(b"\n", raw.find(b"\n") + 1)
    if raw.startswith(codecs.BOM_UTF8) or raw.find(b"coding", 0, second_line_end) >= 0:
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    return "utf-8"


def _universal_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _too_large(path: Path, display: str, size: int, most: int) -> SourceProblem:
    return _whole_file(
        path, display, f"too large: {size / 2**20:.1f} MiB, more than the {most >> 20} MiB that detlint reads"
    )


def _whole_file(path: Path, display: str, reason: str) -> SourceProblem:
    return SourceProblem(path, Location(display, 1, 1, 1, 1), reason)


def _span(node: ast.AST) -> Span:
    """Return where a node is; one without a place of its own (a module) is at the start of the file."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return line, column, getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
