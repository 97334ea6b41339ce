"""Reads the comments that speak to detlint: `# detlint: ignore[DET201] reason`, `# noqa: DET201` and their kin."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from detlint.linter.source.lexing import comments


class Verb(Enum):
    """What a comment asks for. UNKNOWN: it is written like one of ours but says something else."""

    IGNORE = "ignore"
    DISABLE = "disable"
    ENABLE = "enable"
    SKIP_FILE = "skip-file"
    NOQA = "noqa"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a comment, usually a rule's code; line and column count from 1, in characters."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Directive:
    """One comment. `word` is its verb as written; `selectors` are the rules it lists, `reason` the text after them."""

    verb: Verb
    word: Word
    selectors: tuple[Word, ...]
    reason: str
    own_line: bool


_LIST = r"[ \t]*\[[^\]\n]*\]?"
# The colon may be forgotten where it cannot be anything else.
_NAME = rf"(?i:detlint(?:[ \t]*:|(?=[ \t]+(?:ignore|disable|enable|skip-file){_LIST})))"
_OWN = rf"{_NAME}[ \t]*(?P<verb>[\w-]+)(?P<list>{_LIST})?"
_NOQA = r"(?P<noqa>(?i:noqa))\b(?P<colon>[ \t]*:[ \t]*)?(?P<codes>(?i:[A-Z]+\d+[ \t,]*)*)"
_DIRECTIVE = re.compile(rf"#[ \t]*(?:{_OWN}|{_NOQA})(?P<reason>[^\n]*)")
_SELECTOR = re.compile(r"[^\s,\[\]]+")
_MORE = re.compile(rf"#[ \t]*(?:{_NAME}|(?i:noqa))")


def read_directives(text: str) -> list[Directive]:
    """Return the directives of a file, in order. Text inside strings is none."""
    matches = _matches(text)
    starts = [0, *(newline.end() for newline in re.finditer("\n", text))] if matches else []
    found = [(match.start(), directive) for match in matches if (directive := _directive(match, starts)) is not None]
    if not found:
        return []
    spans = comments(text)
    start, end = next(spans, (len(text), len(text)))
    kept = []
    for offset, directive in found:
        while end <= offset:
            start, end = next(spans, (len(text), len(text) + 1))
        if start <= offset:
            kept.append(directive)
    return kept


def _matches(text: str) -> list[re.Match[str]]:
    """Return every possible directive; one comment can hold several."""
    found, position = [], 0
    while (match := _DIRECTIVE.search(text, position)) is not None:
        found.append(match)
        position = match.start("reason")
    return found


def _directive(match: re.Match[str], line_starts: Sequence[int]) -> Directive | None:
    text, start = match.string, match.start()
    reason = _MORE.split(match["reason"])[0].strip(" \t-:")
    line = bisect_right(line_starts, start)
    line_start = line_starts[line - 1]

    def words(pattern: re.Pattern[str], group: str) -> tuple[Word, ...]:
        if match[group] is None:
            return ()
        found = pattern.finditer(text, *match.span(group))
        return tuple(Word(word[0], line, word.start() - line_start + 1) for word in found)

    if match["noqa"] is not None:
        verb, group, codes = Verb.NOQA, "noqa", "codes"
        if match["colon"] is None:
            codes = "list"  # without a colon what follows is a reason, not a list
        elif not match["codes"]:
            return None
    else:
        group, codes = "verb", "list"
        verb = _VERBS.get(match["verb"].lower(), Verb.UNKNOWN)
        if verb is Verb.UNKNOWN and match["list"] is None and reason and _letters(match["verb"]) not in _SPELT:
            return None  # a remark, such as "detlint: see the manual"
    (word,) = words(_SELECTOR, group)
    return Directive(
        verb=verb,
        word=word,
        selectors=words(_SELECTOR, codes),
        reason=reason,
        own_line=not text[line_start:start].strip(),
    )


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


_VERBS = {verb.value: verb for verb in (Verb.IGNORE, Verb.DISABLE, Verb.ENABLE, Verb.SKIP_FILE)}
_SPELT = frozenset(map(_letters, _VERBS))
