"""Applies fixes to files: the ones that do not overlap, again and again until none is left; then one atomic write."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from detlint.config import Config, ConfigResolver
from detlint.errors import UsageError
from detlint.files import write_atomically
from detlint.findings import Applicability, Edit, Finding
from detlint.linter.analysis.project import Project
from detlint.linter.engine import lint_paths, lint_stdin
from detlint.linter.file import UNREADABLE, lint_source
from detlint.linter.jobs import Options
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import FoundFile, discover
from detlint.linter.source.edits import edited, lines_of
from detlint.linter.source.quoting import SourceLines, file_lines, lines_in, stdin_lines
from detlint.linter.source.sources import SourceFile, source_from_bytes

_MAX_ROUNDS = 10
_OPTIONS = Options(with_fixes=True)

Wanted = Callable[[Sequence[Finding], SourceLines], Sequence[Finding]]
"""Called with findings and the lines that they stand on at the moment; returns those that may be worked on."""


def everything(findings: Sequence[Finding], lines: SourceLines) -> Sequence[Finding]:
    """Want every finding."""
    return findings


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
        before, after = (lines_of(content.decode(self.encoding)) for content in (self.before, self.after))
        lines = difflib.unified_diff(before, after, self.display, self.display)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replace the file on disk in one step, keeping encoding, line endings and permissions.

        Raises:
            UsageError: the file changed since it was read, or cannot be written.
        """
        try:
            unchanged = self.path.read_bytes() == self.before
        except OSError:
            unchanged = False
        if not unchanged:
            raise UsageError(f"{self.display}: changed meanwhile, and left alone; run again")
        write_atomically(self.path, self.after)


@dataclass(frozen=True, slots=True)
class Fixes:
    """The files that change, the findings that say why others were not looked at, and internal errors, one a line."""

    files: tuple[FixedFile, ...]
    unread: tuple[Finding, ...]
    problems: tuple[str, ...]


def fix_paths(
    paths: Sequence[str],
    *,
    resolver: ConfigResolver,
    unsafe: bool,
    wanted: Wanted = everything,
    jobs: int | None = None,
    cached: bool = False,
) -> Fixes:
    """Return what fixing the files behind `paths` would do; nothing is written.

    Rounds of fixes are made until none is left, each seeing the other files as they are on disk. A fix that leaves a
    file that does not parse is not made, nor is one that does not take its finding away.

    Raises:
        DetlintError: a path, a configuration or a rule file is not usable.
    """
    result = lint_paths(paths, resolver=resolver, jobs=jobs, options=_OPTIONS, cached=cached)
    choice = _Choice(unsafe, wanted)
    fixable = {finding.location.path for finding in choice.of(result.findings, file_lines)}
    files = (found for found in discover(paths, resolver) if found.display in fixable)
    return _fixes(result, [_fix(found, resolver.for_file(found.path), choice) for found in files])


def fix_stdin(
    data: bytes, filename: str, *, resolver: ConfigResolver, unsafe: bool, wanted: Wanted = everything
) -> Fixes:
    """Return what fixing source given as bytes would do, as if it stood in the file `filename` (which need not exist).

    Raises:
        DetlintError: a configuration or a rule file is not usable.
    """
    path = Path(filename).absolute()
    result = lint_stdin(data, filename, resolver=resolver, options=_OPTIONS)
    choice = _Choice(unsafe, wanted)
    fixable = choice.of(result.findings, stdin_lines(data, filename))
    fixed = _fixed(data, FoundFile(path, filename), resolver.for_file(path), choice) if fixable else None
    return _fixes(result, [fixed])


def _fixes(result: LintResult, files: Sequence[FixedFile | None]) -> Fixes:
    unread = tuple(finding for finding in result.findings if finding.code == UNREADABLE)
    return Fixes(tuple(file for file in files if file is not None), unread, result.problems)


def _fix(found: FoundFile, config: Config, choice: _Choice) -> FixedFile | None:
    try:
        before = found.path.read_bytes()
    except OSError:
        return None  # linting reports it
    return _fixed(before, found, config, choice)


def _fixed(before: bytes, found: FoundFile, config: Config, choice: _Choice) -> FixedFile | None:
    state = _read(before, found, config, choice)
    if state is None or not state.is_exact():
        return None
    encoding = state.source.encoding
    repaired: list[Finding] = []
    useless: set[str] = set()  # rules whose fixes do not parse here, or do not take their findings away
    for _ in range(_MAX_ROUNDS):
        chosen = _without_overlaps(finding for finding in state.fixable if finding.code not in useless)
        if not chosen:
            break
        after = _read(edited(state.source, state.content, chosen), found, config, choice)
        if after is None or len(after.source.problems) > len(state.source.problems):
            useless |= _breaking(chosen, state, found)
            continue
        failed = _unhelped(chosen, state.fixable, after.fixable)
        if failed:
            useless |= failed
            continue
        state = after
        repaired += chosen
    return FixedFile(found.path, found.display, encoding, before, state.content, tuple(repaired)) if repaired else None


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which fixes may be made?"""

    unsafe: bool
    wanted: Wanted

    def of(self, findings: Sequence[Finding], lines: SourceLines) -> tuple[Finding, ...]:
        """Return the findings whose fixes may be made."""
        trusted = {Applicability.SAFE, *([Applicability.UNSAFE] if self.unsafe else [])}
        return tuple(
            finding
            for finding in self.wanted(findings, lines)
            if finding.fix is not None and finding.fix.applicability in trusted
        )


@dataclass(frozen=True, slots=True)
class _State:
    """A file between two rounds, with the findings whose fixes are wanted."""

    content: bytes
    source: SourceFile
    fixable: tuple[Finding, ...]

    def is_exact(self) -> bool:
        """Does encoding what was decoded give the same bytes? A few encodings write one text in several ways."""
        encoding = self.source.encoding
        return self.source.is_notebook or self.content.decode(encoding).encode(encoding) == self.content


def _read(content: bytes, found: FoundFile, config: Config, choice: _Choice) -> _State | None:
    source = _parsed(content, found)
    if source is None:
        return None
    findings = lint_source(source, config, Project(), _OPTIONS).findings
    return _State(content, source, choice.of(findings, lines_in(source, found.display)))


def _parsed(content: bytes, found: FoundFile) -> SourceFile | None:
    source = source_from_bytes(content, found.path, found.display)
    return source if isinstance(source, SourceFile) and isinstance(source.tree(), ast.Module) else None


def _breaking(chosen: Sequence[Finding], state: _State, found: FoundFile) -> set[str]:
    """Return the rules whose fixes alone leave what does not parse; all of them, where it takes several."""
    codes = {finding.code for finding in chosen}
    breaking = set()
    for code in codes:
        alone = [finding for finding in chosen if finding.code == code]
        source = _parsed(edited(state.source, state.content, alone), found)
        if source is None or len(source.problems) > len(state.source.problems):
            breaking.add(code)
    return breaking or codes


def _unhelped(chosen: Sequence[Finding], before: Sequence[Finding], after: Sequence[Finding]) -> set[str]:
    """Return the rules that still report, on a line that a fix of theirs was made for, as much as before."""
    edits = [edit for finding in chosen if finding.fix is not None for edit in finding.fix.edits]
    there = Counter(_line(finding, edits) for finding in before)
    left = Counter(_line(finding, []) for finding in after)
    made = Counter(_line(finding, edits) for finding in chosen)
    return {place[0] for place, count in made.items() if left[place] > there[place] - count}


def _line(finding: Finding, edits: Sequence[Edit]) -> tuple[str, int | None, int]:
    """Return the code of a finding and the line it stands on once the edits are made."""
    where = finding.location
    earlier = (edit for edit in edits if edit.location.cell == where.cell and edit.location <= where)
    added = sum(edit.text.count("\n") - (edit.location.end_line - edit.location.line) for edit in earlier)
    return finding.code, where.cell, where.line + added


def _without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose fixes may be made together, the first of any that overlap."""
    taken: list[tuple[_Place, _Place]] = []
    chosen = []
    for finding in findings:
        spans = [_span(edit) for edit in finding.fix.edits] if finding.fix is not None else []
        if not any(start < end_taken and start_taken < end for start, end in spans for start_taken, end_taken in taken):
            taken += spans
            chosen.append(finding)
    return chosen


_Place = tuple[int, int, int]


def _span(edit: Edit) -> tuple[_Place, _Place]:
    where = edit.location
    cell = where.cell or 0
    # An insertion takes up the character behind it, so that two checks do not insert the same line twice.
    end = max((where.end_line, where.end_column), (where.line, where.column + 1))
    return (cell, where.line, where.column), (cell, *end)
