"""Real reports: as text, JSON by its schema, HTML and SARIF; nothing quoted breaks out of its format."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn

import detlint
from detlint.reports import audit_html, audit_json
from detlint.reports.audit_text import AuditText

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schema" / "audit.json").read_text())


class Noisy(nn.Module):
    """Consults a counter that no seed reaches, so that its runs part at a known line on any machine."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(4, 4)
        self.clock = iter(range(1, 1000))
        self.last = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.scale(x)
        x = x * (1 + next(self.clock) / 10)  # runs part here
        return self.last(x)


class Scatter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(4).scatter_add(0, torch.zeros(8, dtype=torch.long), x.flatten())


@pytest.fixture(scope="module")
def failed() -> detlint.AuditReport:
    torch.manual_seed(0)
    return detlint.audit(Noisy().eval(), torch.ones(2, 4))


@pytest.fixture(scope="module")
def passed() -> detlint.AuditReport:
    return detlint.audit(Scatter().eval(), torch.ones(2, 4))


@pytest.fixture(scope="module")
def traced() -> detlint.AuditReport:
    return detlint.audit(nn.Dropout(0.5).eval(), torch.ones(2, 4), execute=False)


@pytest.fixture(params=["failed", "passed", "traced"])
def report(request: pytest.FixtureRequest) -> detlint.AuditReport:
    found: detlint.AuditReport = request.getfixturevalue(request.param)
    return found


def test_json_follows_its_schema(report: detlint.AuditReport) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(report.to_json())
    jsonschema.validate(document, SCHEMA)
    assert document == json.loads(json.dumps(report.to_dict()))
    for field in SCHEMA["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: value for name, value in document.items() if name != field}, SCHEMA)


def test_a_failed_audit_says_first_that_and_why(failed: detlint.AuditReport) -> None:
    assert not failed.ok
    lines = str(failed).splitlines()
    assert lines[0] == "FAILED Noisy"
    assert lines[1].startswith("  repeat: beyond-rounding: ")


def test_a_test_that_fails_tells_where_it_began_and_what_helps(failed: detlint.AuditReport) -> None:
    with pytest.raises(detlint.NotDeterministic) as caught:
        failed.raise_if_failed()
    told = str(caught.value)
    assert told.startswith("FAILED Noisy\n  repeat: beyond-rounding: ")
    assert "# runs part here" in told
    assert "help: " in told
    assert caught.value.report is failed


def test_a_test_that_fails_shows_its_own_line_and_no_frame_of_detlint() -> None:
    with pytest.raises(detlint.NotDeterministic) as caught:
        detlint.assert_deterministic(Noisy().eval(), torch.ones(2, 4), probes=["repeat"])
    shown = [frame for frame, _ in traceback.walk_tb(caught.tb) if not frame.f_locals.get("__tracebackhide__")]
    assert [frame.f_code.co_filename for frame in shown] == [__file__]


def test_reports_are_one_line_where_python_shows_them(failed: detlint.AuditReport) -> None:
    verdicts = ", ".join(f"{name} {probe.verdict.value}" for name, probe in failed.probes.items())
    assert repr(failed) == f"<AuditReport: Noisy failed: {verdicts}>"


def test_text_shows_where_runs_part_with_the_line_marked(failed: detlint.AuditReport) -> None:
    text = failed.to_text()
    (marked,) = [line for line in text.splitlines() if line.startswith("  > ")]
    assert marked.endswith("# runs part here")
    assert "aten.mul.Tensor, forward" in text
    assert "percentiles of the absolute difference: 50%: " in text


def test_sections_come_in_order(failed: detlint.AuditReport) -> None:
    lines = failed.to_text().splitlines()
    titles = ("FAILED", "probe ", "first divergence", "findings", "not seen")
    places = [next(i for i, line in enumerate(lines) if line.startswith(title)) for title in titles]
    assert places == sorted(places)


def test_a_passed_audit_says_so_and_lists_what_can_differ(passed: detlint.AuditReport) -> None:
    assert passed.ok
    text = passed.to_text()
    assert text.startswith("PASSED Scatter: ")
    assert "the same bits every time" in text.splitlines()[0]
    assert "first divergence" not in text
    assert "scatter_add (predicted for cuda)" in text


def test_what_was_only_traced_is_never_called_equal(traced: detlint.AuditReport) -> None:
    first = traced.to_text().splitlines()[0]
    assert "none executed" in first
    assert "bits" not in first


def test_colour_only_on_request(report: detlint.AuditReport) -> None:
    assert "\x1b" not in report.to_text()
    assert "\x1b[" in report.to_text(color=True)


def test_sarif_holds_every_finding(report: detlint.AuditReport) -> None:
    results = json.loads(report.to_sarif())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == [finding.code for finding in report.findings]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _hostile(value: object) -> object:
    """Put a text that tries to break out behind every free text of a document."""
    attack = "</pre><script>alert(1)</script>\x1b[31m\u202e\n"
    free = {"message", "cause", "remedy", "reason", "path", "function", "module", "model", "name", "note"}
    if isinstance(value, dict):
        return {
            key: f"{item}{attack}" if key in free and isinstance(item, str) else _hostile(item)
            for key, item in value.items()
        }
    return [_hostile(item) for item in value] if isinstance(value, list) else value


def test_html_is_whole_and_quotes_what_it_shows(failed: detlint.AuditReport, tmp_path: Path) -> None:
    failed.to_html(tmp_path / "report.html")
    plain = (tmp_path / "report.html").read_text()
    attacked = audit_html.render(_hostile(failed.to_dict()))  # type: ignore[arg-type]
    for page in (plain, attacked):
        tags = _Tags()
        tags.feed(page)
        assert tags.open == []
        assert "script" not in tags.seen
        assert "http" not in page.partition("<table>")[0]
    assert "aten.mul.Tensor" in plain
    assert failed._repr_html_().startswith('<div class="detlint">')


def test_text_lets_nothing_move_the_cursor(failed: detlint.AuditReport) -> None:
    text = AuditText(_hostile(failed.to_dict())).render()  # type: ignore[arg-type]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m" in text


def test_long_lists_are_cut_and_counted(passed: detlint.AuditReport) -> None:
    (finding,) = passed.findings
    many = tuple(replace(finding, message=f"{finding.message} {number}") for number in range(25))
    assert "and 5 more; all of them in the JSON report" in replace(passed, findings=many).to_text()


def test_the_same_line_in_several_modules_is_shown_once(passed: detlint.AuditReport) -> None:
    (finding,) = passed.findings
    layers = tuple(replace(finding, module=f"layers.{number}") for number in range(4))
    text = replace(passed, findings=layers).to_text()
    assert text.count(finding.message) == 1
    assert "findings (4)" in text
    assert "in layers.0, layers.1 and 2 more" in text


def test_infinite_figures_are_written_as_words(failed: detlint.AuditReport) -> None:
    def infinite(value: object) -> Iterator[str]:
        document = json.loads(json.dumps(value))
        for probe in document["probes"].values():
            for output in probe["outputs"]:
                output["max_abs"] = "inf"
        yield audit_json.render(document)
        yield AuditText(document).render()

    text = list(infinite(failed.to_dict()))
    assert '"max_abs": "inf"' in text[0]
    assert "max abs inf" in text[1]
