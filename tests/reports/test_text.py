"""What people see: blocks with carets in the right place, whatever the source holds."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from detlint.findings import Finding, Location, Related
from detlint.reports import concise, text
from detlint.reports.run_info import RunInfo
from detlint.reports.statistics import render_statistics
from detlint.reports.terminal import excerpt, printable, width_of

EXPECTED = """\
nb.ipynb:cell 3:2:5 DET303 uninitialized-memory
  error: torch.empty is read before it is written
    |
  2 | y = torch.empty(3).sum()
    |     ^^^^^^^^^^^^^^

src/model.py:5:16 DET202 functional-dropout-always-on
  warning: F.dropout drops at inference too
    |
  5 |         return F.dropout(x, 0.5)
    |                ^^^^^^^^^^^^^^^^^
    = help: Pass training=self.training.
    = note: src/model.py:3:1: the module's class

src/model.py:5:16 DET202 functional-dropout-always-on
  warning: F.dropout drops at inference too
    |
  5 |         return F.dropout(x, 0.5)
    |                ^^^^^^^^^^^^^^^^^
    = help: Pass training=self.training.
    = note: src/model.py:3:1: the module's class
    = suppressed: measured, harmless

src/model.py:5:16 DET202 functional-dropout-always-on
  info: F.dropout drops at inference too
    |
  5 |         return F.dropout(x, 0.5)
    |                ^^^^^^^^^^^^^^^^^
    = help: Pass training=self.training.

3 findings (1 error, 1 warning, 1 info) in 2 of 2 files.
"""


def test_the_whole_report(findings: tuple[Finding, ...], run: RunInfo) -> None:
    assert text.render(findings, run) == EXPECTED


def test_colour_adds_codes_and_nothing_else(findings: tuple[Finding, ...], run: RunInfo) -> None:
    colored = text.render(findings, replace(run, color=True))
    assert "\x1b[1;31mDET303\x1b[0m" in colored
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[1;36m"):
        colored = colored.replace(code, "")
    assert colored == EXPECTED


@pytest.mark.parametrize("files, line", [(0, "No findings in 0 files.\n"), (1, "No findings in 1 file.\n")])
def test_nothing_found(run: RunInfo, files: int, line: str) -> None:
    assert text.render([], replace(run, files=files)) == line
    assert concise.render([], run) == ""
    assert render_statistics([], run) == ""


def test_many_related_places_are_counted(findings: tuple[Finding, ...], run: RunInfo) -> None:
    places = tuple(Related(Location("a.py", line, 1, line, 2), "also here") for line in range(1, 8))
    report = text.render([replace(findings[1], related=places)], run)
    assert report.count("also here") == 3
    assert "= note: and 4 more places" in report


def test_source_that_is_gone_is_left_out(findings: tuple[Finding, ...], run: RunInfo) -> None:
    gone = replace(findings[1], location=Location("gone.py", 9, 1, 9, 5))
    assert "^" not in text.render([gone], run)
    assert "^" not in text.render([replace(findings[1], location=Location("src/model.py", 99, 1, 99, 5))], run)


def test_concise(findings: tuple[Finding, ...], run: RunInfo) -> None:
    assert concise.render(findings[:3], run) == (
        "nb.ipynb:cell 3:2:5: DET303 uninitialized-memory: torch.empty is read before it is written\n"
        "src/model.py:5:16: DET202 functional-dropout-always-on: F.dropout drops at inference too\n"
        "src/model.py:5:16: DET202 functional-dropout-always-on: F.dropout drops at inference too (suppressed)\n"
    )


def test_statistics(findings: tuple[Finding, ...], run: RunInfo) -> None:
    assert render_statistics(findings, run) == (
        "3  DET202  functional-dropout-always-on\n1  DET303  uninitialized-memory\n"
    )


def test_quoted_text_cannot_command_the_terminal(hostile: Finding, run: RunInfo) -> None:
    for report in (text.render([hostile], run), concise.render([hostile], run)):
        assert all(character.isprintable() or character == "\n" for character in report)
        assert "\\x1b[31m\\r\\n" in report
        report.encode()
    assert concise.render([hostile], run).count("\n") == 1


PRINTABLE = {
    "plain": ("abc é 漢", "abc é 漢"),
    "tab": ("a\tb", "a    b"),
    "escape": ("\x1b[2J", "\\x1b[2J"),
    "line ends": ("a\r\nb\x85\u2028", "a\\r\\nb\\x85\\u2028"),
    "text order": ("\u202ea\u2066", "\\u202ea\\u2066"),
    "surrogate": ("\ud83d", "\\ud83d"),
    "combining": ("e\u0301", "e\u0301"),
}


@pytest.mark.parametrize("given, shown", PRINTABLE.values(), ids=PRINTABLE)
def test_printable(given: str, shown: str) -> None:
    assert printable(given) == shown


# line, start and end of the underlined part, width → what is underlined in the printed line
EXCERPTS = {
    "short": ("x = f(y)", 4, 8, 40, "f(y)"),
    "after a tab": ("\tf(y)", 1, 5, 40, "f(y)"),
    "wide characters": ("漢字 = f(字)", 5, 9, 40, "f(字)"),
    "wide characters underlined": ("漢字 = 1", 0, 2, 40, "漢字"),
    "control characters before": ("\x00\x1b f()", 3, 6, 40, "f()"),
    "at the end of a long line": ("a" * 100 + "f()", 100, 103, 40, "f()"),
    "at the start of a long line": ("f()" + "a" * 100, 0, 3, 40, "f()"),
    "in the middle": ("a" * 100 + "f()" + "b" * 100, 100, 103, 40, "f()"),
    "longer than the width": ("a" * 10 + "f" * 100, 10, 110, 40, None),
    "past the end": ("abc", 9, 12, 40, None),
    "empty range": ("abc", 1, 1, 40, "b"),
    "empty line": ("", 0, 0, 40, None),
    "very narrow": ("abcdefghij", 4, 6, 4, None),
}


@pytest.mark.parametrize("line, start, end, width, underlined", EXCERPTS.values(), ids=EXCERPTS)
def test_carets_stand_under_what_is_meant(line: str, start: int, end: int, width: int, underlined: str | None) -> None:
    shown, carets = excerpt(line, start, end, width)
    assert "^" in carets
    assert width_of(shown) <= width
    assert len(carets) <= width + 1
    if underlined is not None:
        before = carets.index("^")
        cells = [character for character in shown for _ in range(width_of(character))]
        assert "".join(dict.fromkeys(underlined)) == "".join(dict.fromkeys(cells[before : len(carets)]))


@settings(deadline=None)
@given(some.text(), some.integers(0, 300), some.integers(0, 300), some.integers(4, 200))
def test_any_excerpt_fits_and_has_a_caret(line: str, start: int, end: int, width: int) -> None:
    shown, carets = excerpt(line, start, end, width)
    assert carets.strip(" ") == "^" * carets.count("^") != ""
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert width_of(shown) <= width + 10  # one spelled-out character may stick out
