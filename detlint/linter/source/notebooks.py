"""Notebooks as programs: the code cells of an `.ipynb`, with what only IPython understands made neutral.

Magics and shell escapes become code that does nothing and takes as many lines, so every line keeps its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.source.lexing import COMMENT, STRING

NOTEBOOK = ".ipynb"


class NotebookError(Exception):
    """The file is no notebook; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One code cell. `number` counts all cells of the notebook from 1, as editors and ruff do.

    `first_line` is its line in the program text. IPython lets a whole cell be indented: `margin` is what was cut off
    the start of its lines, save for those in `flush` (counted from 1), which do not start with it.
    """

    number: int
    first_line: int
    text: str
    margin: str = ""
    flush: frozenset[int] = frozenset()

    def margin_of(self, line: int) -> str:
        """Return what was cut off a line, counted from 1 in the cell."""
        return "" if line in self.flush else self.margin


# Cell magics whose body is Python that runs in the notebook's own namespace.
_PYTHON_CELL_MAGICS = frozenset({"capture", "debug", "prun", "time", "timeit"})

_INDENT = re.compile(r"(?:[ \t]*\n)*([ \t]*)")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
# What IPython takes for a command although no `%` stands before it (`pip install torch`, `cd data`).
_AUTOMAGIC = (
    r"(?=(?:pip3?|conda|mamba|uv|cd|ls|ll|mkdir|rmdir|rm|cp|mv|cat)[ \t]+"
    r"(?!(?:in|is|if|and|or|not|for)\b)(?:-[A-Za-z]|[\w./~]))"
)
_HELP = r"(?=[\w.*]+\?\??[ \t]*(?:\n|\Z))"
_LINE_MAGIC = re.compile(rf"[ \t]*(?:(?=[%!?,;/])|{_HELP}|{_AUTOMAGIC})")
# Line magics that run one line of Python in the notebook's own namespace.
_TIMED = re.compile(
    r"[ \t]*(?P<magic>%(?:time|timeit|prun)(?:[ \t]+(?:-[nrp][ \t]*\d+|-[otcq]|--no-raise-error))*[ \t]+)"
    r"(?!-|(?:for|while|if|with|def|class|try|async)\b)(?=\S)"
)
_ASSIGNED_MAGIC = re.compile(r"[ \t]*[A-Za-z_][\w., \t]*(?:\[[^\]\n]*\][ \t]*)?=[ \t]*(?=!|%[A-Za-z_])")
_TOKEN = re.compile(rf"{STRING}|{COMMENT}|(?P<open>[(\[{{])|(?P<close>[)\]}}])|\\\n|(?P<newline>\n)", re.DOTALL)


def read_cells(raw: bytes) -> list[Cell]:
    """Return the Python code cells of a notebook (format 3 or 4) in order; none where its kernel is another language.

    Raises:
        NotebookError: not JSON, or not the JSON of a notebook.
    """
    if not raw.strip():
        return []
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except RecursionError:
        raise NotebookError("malformed notebook: too deeply nested") from None
    except ValueError as error:
        raise NotebookError(f"malformed notebook: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise NotebookError("malformed notebook: not a JSON object")
    if not _is_python(document.get("metadata")):
        return []
    cells, line = [], 1
    for number, source in _code_cells(document):
        cells.append(_neutral(number, line, source))
        line += source.count("\n") + 1
    return cells


def code_of(raw: bytes) -> bytes:
    """Return the code of a notebook as Python would read it, nothing of a file that is none."""
    try:
        return "\n".join(cell.text for cell in read_cells(raw)).encode("utf-8", "replace")
    except NotebookError:
        return b""


def is_notebook(raw: bytes) -> bool:
    """Do these bytes hold a notebook? Its JSON would parse as Python, too."""
    if not raw.lstrip().startswith(b"{") or b'"nbformat"' not in raw:
        return False
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "nbformat" in document


def _is_python(metadata: object) -> bool:
    """A notebook that does not say its language is taken for Python."""
    if not isinstance(metadata, dict):
        return True
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        entry = metadata.get(table)
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            return "python" in entry[key].lower()
    return True


def _code_cells(document: dict[str, object]) -> Iterator[tuple[int, str]]:
    sheets = document.get("worksheets")
    parts = sheets if isinstance(sheets, list) else [document]
    number = 0
    for part in parts:
        cells = part.get("cells") if isinstance(part, dict) else None
        if not isinstance(cells, list):
            raise NotebookError("malformed notebook: no list of cells")
        for cell in cells:
            number += 1
            if not isinstance(cell, dict):
                raise NotebookError(f"malformed notebook: cell {number} is no JSON object")
            if cell.get("cell_type") == "code" and _cell_is_python(cell):
                yield number, _source(cell, number)


def _cell_is_python(cell: dict[str, object]) -> bool:
    """Polyglot notebooks name the language of a cell; format 3 always does."""
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    named = editor.get("languageId") if isinstance(editor, dict) else cell.get("language")
    return not isinstance(named, str) or "python" in named.lower()


def _source(cell: dict[str, object], number: int) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list) and all(isinstance(part, str) for part in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotebookError(f"malformed notebook: cell {number} has no text")
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _neutral(number: int, first_line: int, source: str) -> Cell:
    """Return the cell as plain Python of as many lines."""
    magic = _CELL_MAGIC.match(source)
    if magic is None:
        head, body = "", source
    elif magic[1] not in _PYTHON_CELL_MAGICS:
        return Cell(number, first_line, "\n" * source.count("\n"))
    else:
        end = _end_of_magic(source, magic.end())
        head, body = f"{_line_ends(source[: magic.end()])}pass{_line_ends(source[magic.end() : end])}", source[end:]
    indent = _INDENT.match(body)
    margin = indent[1] if indent is not None else ""
    if not margin:
        return Cell(number, first_line, head + "".join(_statements(body)))
    lines = body.split("\n")
    body = "\n".join(line.removeprefix(margin) for line in lines)
    above = head.count("\n")
    flush = {*range(1, above + 1), *(above + at for at, line in enumerate(lines, 1) if not line.startswith(margin))}
    return Cell(number, first_line, head + "".join(_statements(body)), margin, frozenset(flush))


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")


def _statements(text: str) -> Iterator[str]:
    """Yield the logical lines of a cell, magics replaced. A `%` inside brackets or strings is Python."""
    position = 0
    while position < len(text):
        magic = _LINE_MAGIC.match(text, position) or _ASSIGNED_MAGIC.match(text, position)
        if magic is None:
            end = _end_of_statement(text, position)
            yield text[position:end]
        elif (timed := _TIMED.match(text, position)) and _end_of_statement(text, timed.end()) == (
            end := _end_of_magic(text, position)
        ):
            # A statement that does nothing stands for the magic, as wide as it was: places stay what they are.
            yield text[position : timed.start("magic")] + "0;".ljust(len(timed["magic"])) + text[timed.end() : end]
        else:
            end = _end_of_magic(text, position)
            kept = magic[0]
            code = "get_ipython()" if "=" in kept else "pass"
            yield kept + code + "\n" * text.count("\n", position, end)
        position = end


def _end_of_statement(text: str, position: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, position):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["newline"] and depth <= 0:
            return token.end()
    return len(text)


def _end_of_magic(text: str, position: int) -> int:
    """A magic ends at the first line end that no backslash precedes."""
    while True:
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        if text[newline - 1] != "\\":
            return newline + 1
        position = newline + 1
