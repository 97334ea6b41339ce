"""Which findings do comments silence, and which comments are themselves reported?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detlint.findings import Finding, Location, Severity
from detlint.linter.source.sources import SourceFile, source_from_bytes
from detlint.linter.suppress import apply_suppressions
from detlint.rulebook import Rule, load_rules

ALL = ("DET001", "DET002", "DET101", "DET201", "DET202", "ABC123")


def rule(code: str, name: str) -> Rule:
    real = load_rules()["DET002"]
    return Rule(code, name, "x", Severity.WARNING, True, "", "{problem}", "", "remedy", real.path)


RULES = {
    "ABC123": rule("ABC123", "house-rule"),
    "DET001": rule("DET001", "syntax-error"),
    "DET002": rule("DET002", "unused-suppression"),
    "DET101": rule("DET101", "unseeded-rng"),
    "DET201": rule("DET201", "missing-eval"),
    "DET202": rule("DET202", "functional-dropout-always-on"),
}


def finding(code: str, line: int, cell: int | None = None, path: str = "a.py") -> Finding:
    return Finding(code, RULES[code].name, Severity.WARNING, "m", Location(path, line, 1, line, 2, cell))


def source(text: str, name: str = "a.py") -> SourceFile:
    found = source_from_bytes(text.encode(), Path("/project") / name, name)
    assert isinstance(found, SourceFile)
    return found


def outcome(
    text: str, findings: list[tuple[str, int]], enabled: tuple[str, ...] = ALL
) -> tuple[list[tuple[str, int]], list[tuple[str, int]], list[tuple[int, int, str]]]:
    """Return what is kept and suppressed (code, line) and what DET002 says (line, column, message)."""
    given = [finding(code, line) for code, line in findings]
    kept, suppressed = apply_suppressions(given, source(text), RULES, enabled)
    unused = [f for f in kept if f.code == "DET002"]
    return (
        [(f.code, f.location.line) for f in kept if f not in unused],
        [(f.code, f.location.line) for f in suppressed],
        [(f.location.line, f.location.column, f.message) for f in unused],
    )


SPAN = "x = f(\n    1,  # {}\n    2,\n)\ny = 1\n"
HEADER = "def f(\n    a,\n):  # {}\n    return a\n"
DECORATED = "@d(1)  # {}\n@e\ndef f():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "at", "silenced"),
    [
        pytest.param("x = 1  # detlint: ignore[DET201]\n", 1, True, id="same line"),
        pytest.param("x = 1  #detlint:ignore[DET201]\n", 1, True, id="without blanks"),
        pytest.param("x = 1  # detlint: ignore[DET101, DET201]\n", 1, True, id="list"),
        pytest.param("x = 1  # detlint: ignore[missing-eval]\n", 1, True, id="name"),
        pytest.param("x = 1  # detlint: ignore[DET2]\n", 1, True, id="family"),
        pytest.param("x = 1  # detlint: ignore[DET]\n", 1, True, id="all of detlint"),
        pytest.param("x = 1  # detlint: ignore[DET1]\n", 1, False, id="other family"),
        pytest.param("x = 1  # detlint: ignore[missing]\n", 1, False, id="no prefix of names"),
        pytest.param("x = 1  # detlint: ignore\n", 1, False, id="no list"),
        pytest.param("x = 1  # noqa: DET201\n", 1, True, id="noqa"),
        pytest.param("x = 1  # NOQA:E501,DET201 because\n", 1, True, id="noqa with other tools' codes"),
        pytest.param("x = 1  # noqa: E501 DET201\n", 1, True, id="noqa with blanks"),
        pytest.param("x = 1  # noqa: E501\n", 1, False, id="noqa for another tool"),
        pytest.param("x = 1  # noqa\n", 1, True, id="bare noqa"),
        pytest.param("x = 1  # noqa - all of it\n", 1, True, id="bare noqa with a reason"),
        pytest.param("x = 1  # noqa: all of it\n", 1, False, id="a colon and no code"),
        pytest.param("x = 1  # noqarter\n", 1, False, id="another word"),
        pytest.param("x = 1  # type: ignore[arg-type]  # noqa: DET201\n", 1, True, id="after another comment"),
        pytest.param("x = 1  # noqa: E501  # detlint: ignore[DET201]\n", 1, True, id="two in one comment"),
        pytest.param("x = '# detlint: ignore[DET201]'\n", 1, False, id="in a string"),
        pytest.param("x = '''\n# noqa: DET201\n'''\n", 1, False, id="in a long string"),
        pytest.param("x = 'it''s'  # noqa: DET201\n", 1, True, id="after strings"),
        pytest.param("x = 1\ny = 2  # noqa: DET201\n", 1, False, id="next line"),
        pytest.param("x = 1  # noqa: DET201\ny = 2\n", 2, False, id="previous line"),
        pytest.param(SPAN.format("noqa: DET201"), 1, True, id="inside the statement, finding before"),
        pytest.param(SPAN.format("noqa: DET201"), 3, True, id="inside the statement, finding after"),
        pytest.param(SPAN.format("noqa: DET201"), 5, False, id="inside another statement"),
        pytest.param(HEADER.format("noqa: DET201"), 1, True, id="header of a function"),
        pytest.param(HEADER.format("noqa: DET201"), 4, False, id="header of a function, finding in its body"),
        pytest.param(DECORATED.format("noqa: DET201"), 3, True, id="decorator"),
        pytest.param("if a:  # noqa: DET201\n    b\nelse:\n    c\n", 4, False, id="not the branches"),
        pytest.param("try:\n    a\nexcept E:  # noqa: DET201\n    b\n", 3, True, id="except"),
        pytest.param("# detlint: ignore[DET201]\nx = f(\n    1)\n", 3, True, id="above, for the next statement"),
        pytest.param("def f():\n    # detlint: ignore[DET201]\n    return 1\n", 3, True, id="above, in a body"),
        pytest.param("def f():\n    # detlint: ignore[DET201]\n    return 1\n", 1, False, id="above, not the header"),
        pytest.param("# detlint: ignore[DET201]\nx = 1\ny = 2\n", 3, False, id="above, not further down"),
        pytest.param("x = f(\n    # detlint: ignore[DET201]\n    1)\n", 3, True, id="on its own line inside"),
        pytest.param("# noqa: DET201\nx = 1\n", 2, False, id="noqa goes for its own line only"),
        pytest.param("# detlint: disable[DET201]\nx\ny\n", 3, True, id="block to the end"),
        pytest.param("# detlint: disable[DET201]\nx\n# detlint: enable[DET201]\ny\n", 2, True, id="block"),
        pytest.param("# detlint: disable[DET201]\nx\n# detlint: enable[DET201]\ny\n", 4, False, id="after a block"),
        pytest.param("x\n# detlint: disable[DET201]\ny\n", 1, False, id="before a block"),
        pytest.param("# detlint: disable[DET2]\nx\n# detlint: enable\ny\n", 4, False, id="all blocks ended"),
        pytest.param("x = 1\n# detlint: skip-file\n", 1, True, id="whole file"),
        pytest.param("x = 1\n# detlint: skip-file[DET202]\n", 1, False, id="whole file, another rule"),
        pytest.param("x = 1\n# detlint: skip-file[DET202, DET2]\n", 1, True, id="whole file, this rule"),
        pytest.param("x = 1  # detlint: ignore[det201]\n", 1, True, id="a code in lower case"),
        pytest.param("x = 1  # noqa: det201\n", 1, True, id="noqa in lower case"),
        pytest.param("x = 1  # DETLINT: Ignore[DET201]\n", 1, True, id="upper case"),
        pytest.param("x = 1  # detlint ignore[DET201]\n", 1, True, id="no colon"),
        pytest.param("x = 1  # detlint ignores this\n", 1, False, id="a sentence about detlint"),
        pytest.param("x = '# detlint: skip-file'\n", 1, False, id="whole file, but in a string"),
    ],
)
def test_what_is_silenced(text: str, at: int, silenced: bool) -> None:
    kept, suppressed, _ = outcome(text, [("DET201", at)], enabled=("DET201",))
    assert (kept, suppressed) == (([], [("DET201", at)]) if silenced else ([("DET201", at)], []))


@pytest.mark.parametrize(
    ("text", "findings", "expected"),
    [
        pytest.param("x = 1  # noqa: DET201\n", [("DET201", 1)], [], id="used"),
        pytest.param("x = 1  # noqa: DET201\n", [], [(1, 16, "for DET201 silences nothing")], id="unused"),
        pytest.param(
            "x = 1  # detlint: ignore[DET101, DET201]\n",
            [("DET101", 1)],
            [(1, 34, "for DET201 silences nothing")],
            id="one of two",
        ),
        pytest.param(
            "é = '𝄞'  # noqa: E501,DET201\n", [], [(1, 23, "for DET201 silences nothing")], id="column in characters"
        ),
        pytest.param("x  # noqa: E501, F401, D201\n", [], [], id="other tools' codes"),
        pytest.param("x  # noqa\n", [], [], id="bare noqa"),
        pytest.param("x  # type: ignore\n# detlint: see the manual\n", [], [], id="remarks"),
        pytest.param("x  # noqa: ABC123\n", [], [(1, 12, "for ABC123 silences nothing")], id="a rule of the house"),
        pytest.param(
            "x  # noqa: DET999\n",
            [],
            [(1, 12, "names the unknown rule 'DET999'")],
            id="unknown code",
        ),
        pytest.param(
            "x  # detlint: ignore[missing-evil]\n",
            [],
            [(1, 22, "names the unknown rule 'missing-evil'; did you mean 'missing-eval'?")],
            id="unknown name",
        ),
        pytest.param(
            "x  # detlint: ingore[DET201]\n",
            [],
            [(1, 15, "asks for 'ingore', which is nothing detlint does; did you mean 'ignore'?")],
            id="unknown verb",
        ),
        pytest.param(
            "# detlint: skipfile\n",
            [],
            [(1, 12, "asks for 'skipfile', which is nothing detlint does; did you mean 'skip-file'?")],
            id="skipfile",
        ),
        pytest.param(
            "# detlint: skip_file made by a tool\n",
            [],
            [(1, 12, "asks for 'skip_file', which is nothing detlint does; did you mean 'skip-file'?")],
            id="skip_file",
        ),
        pytest.param(
            "x  # detlint: noqa\n", [], [(1, 15, "asks for 'noqa', which is nothing detlint does")], id="another's verb"
        ),
        pytest.param(
            "x  # detlint: skip-file[DET201]\n", [], [(1, 25, "for DET201 silences nothing")], id="unused for the file"
        ),
        pytest.param(
            "x  # detlint: ignore\n",
            [],
            [(1, 15, "names no rule and silences nothing; write ignore[CODE]")],
            id="no list",
        ),
        pytest.param("x  # detlint: disable[DET101]\n", [("DET101", 1)], [], id="used block"),
        pytest.param("x  # detlint: disable[DET1]\n", [], [(1, 23, "for DET1 silences nothing")], id="unused block"),
        pytest.param(
            "x\n# detlint: enable[DET201]\n",
            [],
            [(2, 19, "ends a block that no `disable` began")],
            id="end of no block",
        ),
        pytest.param("x  # noqa: DET201, DET002\n", [], [], id="silenced itself"),
        pytest.param("# detlint: disable[DET002]\nx  # noqa: DET201\n", [], [], id="silenced in a block"),
        pytest.param(
            "x  # noqa: DET002\n", [], [(1, 12, "for DET002 silences nothing")], id="nothing unused to silence"
        ),
        pytest.param("# detlint: skip-file\nx  # noqa: DET201\n", [], [], id="skipped file"),
        pytest.param("x = (  # noqa: DET201\n", [("DET001", 1)], [], id="a file that does not parse"),
        pytest.param("s = '''\n# detlint: ignore[DET201]\n'''\n", [], [], id="in a string"),
    ],
)
def test_unused_suppressions(text: str, findings: list[tuple[str, int]], expected: list[tuple[int, int, str]]) -> None:
    assert outcome(text, findings)[2] == expected


@pytest.mark.parametrize(
    ("enabled", "reported"),
    [
        pytest.param(("DET002", "DET201"), 1, id="both enabled"),
        pytest.param(("DET002", "DET202"), 0, id="the rule is not enabled here"),
        pytest.param(("DET201",), 0, id="DET002 is not enabled"),
    ],
)
def test_only_enabled_rules_can_be_unused(enabled: tuple[str, ...], reported: int) -> None:
    assert len(outcome("x  # noqa: DET201\n", [], enabled)[2]) == reported


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        pytest.param("detlint: ignore[DET201] Monte Carlo, see #12", "Monte Carlo, see #12", id="after the bracket"),
        pytest.param("detlint: ignore[DET201] - wanted  # noqa: E501", "wanted", id="up to the next comment"),
        pytest.param("detlint: ignore[DET201]", "", id="none"),
        pytest.param("noqa: DET201 -- wanted", "wanted", id="noqa"),
        pytest.param("detlint: skip-file generated", "generated", id="whole file"),
    ],
)
def test_reasons_are_kept(comment: str, reason: str) -> None:
    kept, suppressed = apply_suppressions([finding("DET201", 1)], source(f"x = 1  # {comment}\n"), RULES, ALL)
    assert kept == []
    assert [f.suppressed for f in suppressed] == [reason]


def test_blocks_end_with_their_cell() -> None:
    cells = ["# detlint: disable[DET201]\nx", "y", "# detlint: disable[DET202]\n  z = ("]
    raw = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})
    notebook = source(raw, "a.ipynb")
    given = [finding("DET201", 2, 1, "a.ipynb"), finding("DET201", 1, 2, "a.ipynb")]
    kept, suppressed = apply_suppressions(given, notebook, RULES, ALL)
    assert kept == given[1:]
    assert [f.location.cell for f in suppressed] == [1]


def test_unused_suppression_in_a_notebook_names_its_cell() -> None:
    raw = json.dumps({"cells": [{"cell_type": "code", "source": text} for text in ("x", "y\nz  # noqa: DET201")]})
    kept, _ = apply_suppressions([], source(raw, "a.ipynb"), RULES, ALL)
    assert [f.location for f in kept] == [Location("a.ipynb", 2, 12, 2, 18, cell=2)]
