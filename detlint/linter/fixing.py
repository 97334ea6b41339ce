"""Applies fixes to files: the ones that do not overlap, again and again until none is left; then one atomic write."""

from __future__ import annotations

import ast
import difflib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from detlint.config import Config, ConfigResolver
from detlint.files import write_atomically
from detlint.findings import Applicability, Finding, Fix
from detlint.linter.discovery import FoundFile, discover
from detlint.linter.file import Options, lint_source
from detlint.linter.project import Project
from detlint.linter.sources import SourceFile, source_from_bytes

_MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class FixedFile:
    """What fixing does to one file: its bytes before and after, and the findings that it repairs."""

    path: Path
    display: str
    encoding: str
    before: bytes
    after: bytes
    repaired: tuple[Finding, ...]

    def diff(self) -> str:
        """Return the change as a unified diff."""
        before, after = (_lines(content.decode(self.encoding)) for content in (self.before, self.after))
        lines = difflib.unified_diff(before, after, self.display, self.display)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replace the file on disk in one step, keeping encoding, line endings and permissions."""
        write_atomically(self.path, self.after)


def fix_paths(paths: Sequence[str], *, resolver: ConfigResolver, unsafe: bool) -> list[FixedFile]:
    """Return what fixing the files behind `paths` would do; nothing is written.

    A file whose fixed form does not parse is left alone, and so are notebooks.

    Raises:
        DetlintError: a path, a configuration or a rule file is not usable.
    """
    fixed = (_fix(found, resolver.for_file(found.path), unsafe) for found in discover(paths, resolver))
    return [result for result in fixed if result is not None]


def _fix(found: FoundFile, config: Config, unsafe: bool) -> FixedFile | None:
    try:
        before = found.path.read_bytes()
    except OSError:
        return None  # linting reports it
    content = before
    repaired: list[Finding] = []
    for _ in range(_MAX_ROUNDS):
        source = source_from_bytes(content, found.path, found.display)
        if not isinstance(source, SourceFile) or source.is_notebook:
            break
        findings = lint_source(source, config, Project(), Options(with_fixes=True)).findings
        chosen = _chosen(findings, unsafe)
        changed = _applied(content, source.encoding, chosen)
        again = source_from_bytes(changed, found.path, found.display)
        if changed == content or not isinstance(again, SourceFile) or not isinstance(again.tree(), ast.Module):
            break
        content = changed
        repaired += chosen
    if not repaired:
        return None
    return FixedFile(found.path, found.display, source.encoding, before, content, tuple(repaired))


def _chosen(findings: Iterable[Finding], unsafe: bool) -> list[Finding]:
    """Return the findings whose fixes may be made together, the first of any that overlap."""
    trusted = {Applicability.SAFE, *([Applicability.UNSAFE] if unsafe else [])}
    taken: list[tuple[tuple[int, int], tuple[int, int]]] = []
    chosen = []
    for finding in findings:
        if finding.fix is None or finding.fix.applicability not in trusted:
            continue
        spans = _spans(finding.fix)
        if not any(start < end_taken and start_taken < end for start, end in spans for start_taken, end_taken in taken):
            taken += spans
            chosen.append(finding)
    return chosen


def _spans(fix: Fix) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    places = [edit.location for edit in fix.edits]
    # An insertion takes up its line, so that two checks do not insert the same line twice.
    return [
        ((place.line, place.column), max((place.end_line, place.end_column), (place.line, place.column + 1)))
        for place in places
    ]


def _applied(content: bytes, encoding: str, findings: Sequence[Finding]) -> bytes:
    """Return the content of a file with the fixes of `findings` made."""
    lines = _lines(content.decode(encoding))
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    edits = {edit for finding in findings if finding.fix is not None for edit in finding.fix.edits}
    for edit in sorted(edits, key=lambda edit: (edit.location, edit.text), reverse=True):
        place = edit.location
        head = lines[place.line - 1][: place.column - 1]
        tail = lines[place.end_line - 1][place.end_column - 1 :]
        lines[place.line - 1 : place.end_line] = _lines(head + edit.text.replace("\n", newline) + tail)
    return "".join(lines).encode(encoding)


def _lines(text: str) -> list[str]:
    """Split where Python ends a line, keeping the endings; form feeds and the like end none."""
    return io.StringIO(text, newline="").readlines()
