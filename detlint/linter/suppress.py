"""What do comments silence? A comment that silences nothing, or names no rule there is, is reported itself (DET002).

- `# detlint: ignore[DET201] reason` and `# noqa: DET201`: the statement that the comment stands on (of one with a
  body, its header). An `ignore` alone on its line between statements goes for the next one.
- `# detlint: disable[DET201]` … `# detlint: enable[DET201]`: all lines between, at most to the end of the file or cell.
- `# detlint: skip-file`: everything; `# detlint: skip-file[DET201]`: those rules in the whole file.

Rules are named by code, name or family prefix (`DET2`). Upper and lower case are the same. A bare `# noqa` silences its
statement and is never reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from detlint.config import selector_rank
from detlint.errors import did_you_mean
from detlint.findings import Finding
from detlint.linter.source.directives import Directive, Verb, Word, read_directives
from detlint.linter.source.sources import SourceFile
from detlint.linter.source.statements import Statements
from detlint.rulebook import Rule

_UNREADABLE = "DET001"
_UNUSED = "DET002"
_OUR_CODE = re.compile(r"DET\d+")


@dataclass(slots=True)
class _Silencer:
    """Silences `codes` (all, if None) on the lines `first` to `last`; `selector` is where the comment says so."""

    codes: frozenset[str] | None
    first: int
    last: int
    reason: str
    selector: Word | None = None
    used: bool = False

    def is_about(self, code: str) -> bool:
        return self.codes is None or code in self.codes

    def is_for(self, word: Word) -> bool:
        return self.selector is not None and self.selector.text.upper() == word.text.upper()


@dataclass(frozen=True, slots=True)
class _Complaint:
    """What is wrong with a comment, and the word of it that is to blame."""

    word: Word
    problem: str


def apply_suppressions(
    findings: Sequence[Finding], source: SourceFile, rules: Mapping[str, Rule], enabled: Collection[str]
) -> tuple[list[Finding], list[Finding]]:
    """Split the findings of a file into those that stay, with the DET002 findings added, and the suppressed ones.

    A comment for rules that are not `enabled` for the file is not reported unused, nor is any where a part of the
    file could not be checked.
    """
    directives = [d for d in read_directives(source.text) if _concerns(d, rules, bool(findings))]
    if not directives:
        return list(findings), []
    skip = next((d for d in directives if d.verb is Verb.SKIP_FILE and not d.selectors), None)
    if skip is not None:
        return [], [replace(finding, suppressed=skip.reason) for finding in findings]
    tree = source.tree()
    complaints: list[_Complaint] = []
    silencers = [
        *_lines(directives, rules, Statements(tree) if isinstance(tree, ast.Module) else None),
        *_blocks(directives, rules, source, complaints),
        *_whole_file(directives, rules, source),
    ]
    kept, suppressed = _split(findings, silencers, source)
    if _UNUSED not in enabled:
        return kept, suppressed
    complaints += _misnamed(directives, rules)
    if isinstance(tree, ast.Module) and not source.problems and all(f.code != _UNREADABLE for f in findings):
        complaints += _unused(silencers, enabled, about_unused=False)
    reported, accepted = _split([_finding(c, source, rules[_UNUSED]) for c in complaints], silencers, source)
    last = [_finding(c, source, rules[_UNUSED]) for c in _unused(silencers, enabled, about_unused=True)]
    return kept + reported + last, suppressed + accepted


def _concerns(directive: Directive, rules: Mapping[str, Rule], any_findings: bool) -> bool:
    """Can the comment matter to us? Most `noqa` comments list only codes of other tools."""
    if directive.verb is not Verb.NOQA:
        return True
    return any(_is_ours(word, rules) for word in directive.selectors) if directive.selectors else any_findings


def _is_ours(word: Word, rules: Mapping[str, Rule]) -> bool:
    code = word.text.upper()
    return code in rules or _OUR_CODE.fullmatch(code) is not None


def _meant(word: Word, rules: Mapping[str, Rule]) -> frozenset[str]:
    """Return the codes of the rules that a selector names."""
    selectors = {word.text.lower(), word.text.upper()} - {"ALL"}  # a comment names what it silences
    return frozenset(code for code, rule in rules.items() if any(selector_rank(rule, each) for each in selectors))


def _lines(
    directives: Iterable[Directive], rules: Mapping[str, Rule], statements: Statements | None
) -> Iterator[_Silencer]:
    """Yield the silencers of single statements."""
    for directive in directives:
        if directive.verb not in (Verb.IGNORE, Verb.NOQA):
            continue
        line = first = last = directive.word.line
        if statements is not None:
            to_next = directive.own_line and directive.verb is Verb.IGNORE
            extent = statements.after(line) if to_next else statements.at(line)
            if extent is not None:
                first, last = min(line, extent.first), extent.last
        if directive.verb is Verb.NOQA and not directive.selectors:
            yield _Silencer(None, first, last, directive.reason)
        for word in directive.selectors:
            yield _Silencer(_meant(word, rules), first, last, directive.reason, word)


def _blocks(
    directives: Iterable[Directive], rules: Mapping[str, Rule], source: SourceFile, complaints: list[_Complaint]
) -> list[_Silencer]:
    """Return the silencers of blocks; add a complaint for each `enable` that ends nothing."""
    found: list[_Silencer] = []
    for directive in directives:
        line = directive.word.line
        if directive.verb is Verb.DISABLE:
            last = source.end_of_cell(line)
            for word in directive.selectors:
                found.append(_Silencer(_meant(word, rules), line, last, directive.reason, word))
        elif directive.verb is Verb.ENABLE:
            # Without a list it ends every open block.
            for word in directive.selectors or (directive.word,):
                ended = [s for s in found if s.last > line and (word is directive.word or s.is_for(word))]
                for silencer in ended:
                    silencer.last = line
                if not ended:
                    complaints.append(_Complaint(word, "ends a block that no `disable` began"))
    return found


def _whole_file(directives: Iterable[Directive], rules: Mapping[str, Rule], source: SourceFile) -> Iterator[_Silencer]:
    """Yield the silencers of `skip-file` with a list."""
    for directive in directives:
        if directive.verb is Verb.SKIP_FILE:
            for word in directive.selectors:
                yield _Silencer(_meant(word, rules), 1, len(source.lines), directive.reason, word)


def _split(
    findings: Iterable[Finding], silencers: Sequence[_Silencer], source: SourceFile
) -> tuple[list[Finding], list[Finding]]:
    """Split findings into kept and suppressed ones, and mark every silencer that did something."""
    findings = list(findings)
    at_line = _by_line(silencers, {source.line_of(finding.location) for finding in findings})
    kept, suppressed = [], []
    for finding in findings:
        around = at_line[source.line_of(finding.location)]
        covering = [silencer for silencer in around if silencer.is_about(finding.code)]
        for silencer in covering:
            silencer.used = True
        if covering:
            suppressed.append(replace(finding, suppressed=covering[0].reason))
        else:
            kept.append(finding)
    return kept, suppressed


def _by_line(silencers: Sequence[_Silencer], lines: Collection[int]) -> dict[int, list[_Silencer]]:
    """Return the silencers that cover each of the lines, in their order."""
    coming = sorted(enumerate(silencers), key=lambda each: -each[1].first)
    around: list[tuple[int, _Silencer]] = []
    found: dict[int, list[_Silencer]] = {}
    for line in sorted(lines):
        while coming and coming[-1][1].first <= line:
            around.append(coming.pop())
        around = sorted((each for each in around if line <= each[1].last), key=lambda each: each[0])
        found[line] = [silencer for _, silencer in around]
    return found


def _misnamed(directives: Iterable[Directive], rules: Mapping[str, Rule]) -> Iterator[_Complaint]:
    """Yield what can be told from the comments alone: words that name no rule or nothing we do, missing lists."""
    names = [*rules, *(rule.name for rule in rules.values())]
    verbs = [verb.value for verb in Verb if verb not in (Verb.NOQA, Verb.UNKNOWN)]
    for directive in directives:
        word = directive.word
        if directive.verb is Verb.UNKNOWN:
            yield _Complaint(
                word, f"asks for {word.text!r}, which is nothing detlint does{did_you_mean(word.text.lower(), verbs)}"
            )
        elif directive.verb in (Verb.IGNORE, Verb.DISABLE) and not directive.selectors:
            yield _Complaint(word, f"names no rule and silences nothing; write {word.text}[CODE]")
        for selector in directive.selectors if directive.verb is not Verb.UNKNOWN else ():
            ours = directive.verb is not Verb.NOQA or _is_ours(selector, rules)
            if ours and not _meant(selector, rules):
                yield _Complaint(
                    selector, f"names the unknown rule {selector.text!r}{did_you_mean(selector.text, names)}"
                )


def _unused(silencers: Iterable[_Silencer], enabled: Collection[str], *, about_unused: bool) -> Iterator[_Complaint]:
    """Yield the silencers that did nothing: those that can silence DET002 itself (`about_unused`), or all others."""
    for silencer in silencers:
        if silencer.used or silencer.selector is None or silencer.codes is None:
            continue
        if (_UNUSED in silencer.codes) is about_unused and not silencer.codes.isdisjoint(enabled):
            yield _Complaint(silencer.selector, f"for {silencer.selector.text} silences nothing")


def _finding(complaint: _Complaint, source: SourceFile, rule: Rule) -> Finding:
    word = complaint.word
    return rule.finding(source.place(word.line, word.column, len(word.text)), problem=complaint.problem)
