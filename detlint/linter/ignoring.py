"""Writes `# detlint: ignore[...]` comments for findings, so that an old code base starts clean."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from detlint.config import ConfigResolver
from detlint.findings import Edit, Finding, Location
from detlint.linter.engine import lint_paths
from detlint.linter.fixing import FixedFile, Wanted, everything
from detlint.linter.source.directives import Directive, Verb, read_directives
from detlint.linter.source.discovery import FoundFile, discover
from detlint.linter.source.edits import apply_edits
from detlint.linter.source.lexing import string_spans
from detlint.linter.source.quoting import file_lines
from detlint.linter.source.sources import SourceFile, source_from_bytes
from detlint.linter.source.statements import Extent, Statements

# What a comment cannot help: files that do not parse, and comments that should go instead.
_LEFT = ("DET001", "DET002")


def ignore_paths(
    paths: Sequence[str],
    *,
    resolver: ConfigResolver,
    wanted: Wanted = everything,
    jobs: int | None = None,
    cached: bool = False,
) -> list[FixedFile]:
    """Return the files behind `paths` with a comment for each finding that is wanted; nothing is written.

    Comments that are there are added to. A file that would mean anything else with the comments is left alone.

    Raises:
        DetlintError: a path, a configuration or a rule file is not usable.
    """
    result = lint_paths(paths, resolver=resolver, jobs=jobs, cached=cached)
    by_file: dict[str, list[Finding]] = {}
    for finding in wanted(result.findings, file_lines):
        if finding.code not in _LEFT:
            by_file.setdefault(finding.location.path, []).append(finding)
    files = (found for found in discover(paths, resolver) if found.display in by_file)
    commented = (_comment(found, by_file[found.display]) for found in files)
    return [each for each in commented if each is not None]


def _comment(found: FoundFile, findings: Sequence[Finding]) -> FixedFile | None:
    try:
        before = found.path.read_bytes()
    except OSError:
        return None  # linting reports it
    source = source_from_bytes(before, found.path, found.display)
    tree = source.tree() if isinstance(source, SourceFile) else None
    if not isinstance(source, SourceFile) or not isinstance(tree, ast.Module):
        return None
    after = apply_edits(source, before, _edits(source, Statements(tree), findings))
    again = source_from_bytes(after, found.path, found.display)
    changed = again.tree() if isinstance(again, SourceFile) else None
    if not isinstance(changed, ast.Module) or ast.dump(changed) != ast.dump(tree):
        return None
    return FixedFile(found.path, found.display, source.encoding, before, after, tuple(findings))


def _edits(source: SourceFile, statements: Statements, findings: Iterable[Finding]) -> Iterator[Edit]:
    directives = [each for each in read_directives(source.text) if each.verb is Verb.IGNORE and each.selectors]
    strings = tuple(string_spans(source.text))
    wanted: dict[Location, set[str]] = {}
    texts: dict[Location, str] = {}
    for finding in findings:
        line = source.line_of(finding.location)
        extent = statements.at(line) or Extent(line, line, line)
        known = next((each for each in directives if _is_for(each, extent, statements)), None)
        # The last line of a decorated function may belong to its body: `def f(x): return x`.
        behind = statements.at(extent.end) in (extent, None)
        place, text = _place(known, extent, source, strings, behind=behind)
        wanted.setdefault(place, set()).add(finding.code)
        texts[place] = text
    for place, codes in wanted.items():
        yield source.edit(place, texts[place].format(", ".join(sorted(codes))))


def _is_for(directive: Directive, extent: Extent, statements: Statements) -> bool:
    line = directive.word.line
    return (statements.after(line) if directive.own_line else statements.at(line)) == extent


def _place(
    known: Directive | None, extent: Extent, source: SourceFile, strings: Sequence[tuple[int, int]], *, behind: bool
) -> tuple[Location, str]:
    """Return where the codes for a statement go, `behind` it or before, and the text around them."""
    if known is not None:
        last = known.selectors[-1]
        return source.place(last.line, last.column + len(last.text), 0), ", {}"
    line = source.lines[extent.end - 1]
    end = sum(len(text) + 1 for text in source.lines[: extent.end]) - 1
    if behind and not line.endswith("\\") and not any(first < end < last for first, last in strings):
        return source.place(extent.end, len(line) + 1, 0), "  # detlint: ignore[{}]"
    # The line ends inside something else that begins on it: the comment goes before the statement.
    first_line = source.lines[extent.first - 1]
    indent = first_line[: len(first_line) - len(first_line.lstrip())]
    return source.place(extent.first, 1, 0), f"{indent}# detlint: ignore[{{}}]\n"
