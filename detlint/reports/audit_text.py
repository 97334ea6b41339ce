"""An audit for people: the verdict, what each probe saw, where it began, what can differ, what was not seen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detlint.errors import first_few
from detlint.reports.run_info import SourceLines, no_source
from detlint.reports.terminal import excerpt, printable, styled, width_of

_VERDICT_STYLES = {"beyond-rounding": "bold red", "error": "bold red", "rounding": "yellow", "skipped": "dim"}
_SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_CONTEXT = 2
_GROUPS_SHOWN = 20
_MODULES_SHOWN = 2
PROBE_COLUMNS = ("probe", "verdict", "max abs", "max rel", "max ulp", "first operator", "cause")
_QUANTILES = (50, 85, 90, 95, 99, 100)


class AuditText:
    """Renders one document of `audit_json`; `source_lines` gives the lines of files where they can be had."""

    def __init__(
        self,
        report: Mapping[str, Any],
        *,
        source_lines: SourceLines = no_source,
        color: bool = False,
        width: int = 100,
    ) -> None:
        self._report = report
        self._source_lines = source_lines
        self._color = color
        self._width = width

    def render(self) -> str:
        """Return the sections that have something to say, a blank line between them."""
        return _joined(
            self._verdict(),
            self._probes(),
            self.first_divergence(),
            self._findings(),
            self._listed("not seen", self._report["blind_spots"]),
            self._listed("problems", self._report["problems"]),
        )

    def failure(self) -> str:
        """Return what a test that fails has to tell: the verdict, where it began, and what helps."""
        return _joined(self._verdict(), self.first_divergence(), self._findings())

    def _verdict(self) -> Iterator[str]:
        report = self._report
        model = printable(report["model"])
        if report["ok"]:
            yield f"{self._styled(word_for(report), 'bold')} {model}: {_good_news(report)}"
            return
        yield f"{self._styled('FAILED', 'bold red')} {model}"
        for failure in report["failures"]:
            yield f"  {printable(failure)}"

    def probe_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row of `PROBE_COLUMNS` for each probe; the cause is the reason where it was skipped."""
        for name, probe in self._report["probes"].items():
            worst, event = _worst(probe), (probe["divergence"] or {}).get("event")
            figures = ("-", "-", "-")
            if worst is not None:
                figures = (_number(worst["max_abs"]), _number(worst["max_rel"]), str(worst["max_ulp"]))
            operator = "-" if event is None else event["op"] + (f" in {event['module']}" if event["module"] else "")
            yield (name, probe["verdict"], *figures, operator, probe["reason"] or probe["cause"])

    def _probes(self) -> Iterator[str]:
        rows = list(self.probe_rows())
        widths = [max(width_of(row[column]) for row in (PROBE_COLUMNS, *rows)) for column in range(5)]
        for row in (PROBE_COLUMNS[:6], *rows) if rows else ():
            cells = [
                f"{cell:<{width}}" if column < 2 else f"{cell:>{width}}"
                for column, (cell, width) in enumerate(zip(row, widths, strict=False))
            ]
            cells[1] = self._styled(cells[1], "bold" if row[0] == "probe" else _VERDICT_STYLES.get(row[1], ""))
            yield "  ".join([*cells, printable(row[5])]).rstrip()
            if row[6:] and row[6]:
                yield from self._wrapped(row[6])

    def _wrapped(self, cause: str) -> Iterator[str]:
        """Put a cause under its row."""
        for line in textwrap.wrap(printable(cause), max(40, self._width - 4)):
            yield "    " + self._styled(line, "dim")

    def first_divergence(self) -> Iterator[str]:
        """Yield the lines on where it began, for the probe that saw the worst; the first one of several."""
        differing = [
            (name, probe)
            for name, probe in self._report["probes"].items()
            if probe["divergence"] is not None and probe["verdict"] not in ("bitwise", "skipped")
        ]
        if differing:
            name, probe = max(differing, key=lambda item: item[1]["verdict"] != "rounding")
            yield self._styled("first divergence", "bold") + f" ({name})"
            yield from self._divergence(probe, probe["divergence"])

    def _divergence(self, probe: Mapping[str, Any], divergence: Mapping[str, Any]) -> Iterator[str]:
        event = divergence["event"] or divergence["other"]
        if event is not None:
            where = f" in {event['module']} ({event['module_type']})" if event["module"] else ""
            yield f"  {self._styled(event['op'], 'bold')}{printable(where)}, {event['phase']}"
            if event["source"] is not None:
                yield from self._source(event["source"])
        if divergence["sequence_forks"]:
            yield f"  {_fork(divergence)}"
        if divergence["note"]:
            yield f"  {printable(divergence['note'])}"
        for label, difference in (("there", divergence["at_operator"]), ("at the output", _worst(probe))):
            if difference is not None:
                yield f"  {label}: {_difference(difference)}"
                yield f"    percentiles of the absolute difference: {_percentiles(difference)}"
        yield from (f"  {printable(line)}" for line in probe["evidence"])
        if probe["cause"]:
            yield f"  {self._styled('cause', 'bold')}: {printable(probe['cause'])} ({probe['kind']})"
        # Of several findings that of this operator, else the last, which is about the divergence itself.
        remedies = [finding for finding in probe["findings"] if finding["remedy"]]
        here = [finding for finding in remedies if event is not None and _is_about(finding, event)]
        if remedies:
            yield f"  {self._styled('help', 'bold')}: {printable((here or remedies)[-1]['remedy'])}"

    def _source(self, source: Mapping[str, Any]) -> Iterator[str]:
        line = source["line"]
        yield f"  {printable(source['path'])}:{line} in {printable(source['function'])}"
        lines = self._source_lines(source["path"], None)
        if not 0 < line <= len(lines):
            return
        first, last = max(1, line - _CONTEXT), min(len(lines), line + _CONTEXT)
        digits = len(str(last))
        for number in range(first, last + 1):
            shown, _ = excerpt(lines[number - 1], 0, 1, self._width - digits - 8)
            mark = self._styled(">", "bold red") if number == line else " "
            yield f"  {mark} {number:>{digits}} | {shown}".rstrip()

    def finding_groups(self) -> list[list[Mapping[str, Any]]]:
        """Return the findings, those together that say the same of one line in several modules."""
        groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for finding in self._report["findings"]:
            key = (finding["code"], finding["path"], str(finding["line"]), finding["message"])
            groups.setdefault(key, []).append(finding)
        return list(groups.values())

    def _findings(self) -> Iterator[str]:
        groups = self.finding_groups()
        if not groups:
            return
        yield self._styled("findings", "bold") + f" ({len(self._report['findings'])})"
        for group in groups[:_GROUPS_SHOWN]:
            finding = group[0]
            code = self._styled(finding["code"], _SEVERITY_STYLES[finding["severity"]])
            where = f" in {modules_of(group)}" if finding["module"] else ""
            yield f"  {printable(finding['path'])}:{finding['line']} {code} {printable(finding['name'] + where)}"
            yield f"    {finding['severity']}: {printable(finding['message'])}"
            if finding["remedy"]:
                yield f"    {self._styled('help', 'bold')}: {printable(finding['remedy'])}"
        rest = sum(map(len, groups[_GROUPS_SHOWN:]))
        if rest:
            yield f"  and {rest} more; all of them in the JSON report"

    def _listed(self, title: str, lines: Sequence[str]) -> Iterator[str]:
        if lines:
            yield self._styled(title, "bold")
            yield from (f"  {printable(line)}" for line in lines)

    def _styled(self, text: str, style: str) -> str:
        return styled(text, style, color=self._color and bool(style))


def _joined(*sections: Iterable[str]) -> str:
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def modules_of(group: Sequence[Mapping[str, Any]]) -> str:
    """Name the modules of findings that say the same: the first ones, and how many more."""
    return first_few(list(dict.fromkeys(finding["module"] for finding in group)), _MODULES_SHOWN)


def word_for(report: Mapping[str, Any]) -> str:
    """The verdict in a word: where no probe could ask anything, nothing has passed either."""
    if not report["ok"]:
        return "FAILED"
    asked = any(probe["verdict"] != "skipped" for probe in report["probes"].values())
    return "PASSED" if asked or _only_traced(report) else "NOTHING TESTED"


def _only_traced(report: Mapping[str, Any]) -> bool:
    return any(spot.startswith("nothing was executed") for spot in report["blind_spots"])


def _good_news(report: Mapping[str, Any]) -> str:
    operators = f"{len(report['events'])} operators"
    if _only_traced(report):
        return f"{operators} traced, none executed"
    if not report["probes"]:
        return f"{operators} ran once, no probe was asked for"
    verdicts = {probe["verdict"] for probe in report["probes"].values()} - {"skipped"}
    bits = "the same bits every time" if verdicts == {"bitwise"} else "equal up to rounding"
    return f"{operators}, {bits}" if verdicts else f"{operators}, every probe was skipped"


def _is_about(finding: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    line = event["source"]["line"] if event["source"] is not None else finding["line"]
    return (finding["op"], finding["module"], finding["line"]) == (event["op"], event["module"], line)


def _fork(divergence: Mapping[str, Any]) -> str:
    """Say how the other run goes on, and where; the event shown is its own where the plain run is at its end."""
    other = divergence["other"]
    if divergence["event"] is None or other is None:
        return "there the run without the change has ended" if other else "the other run has ended there"
    source = other["source"]
    where = f" at {source['path']}:{source['line']}" if source is not None else ""
    return printable(f"the other run goes on with {other['op']}{where}")


def _worst(probe: Mapping[str, Any]) -> Mapping[str, Any] | None:
    outputs = probe["outputs"]
    return max(outputs, key=lambda output: float(output["max_abs"])) if outputs else None


def _difference(difference: Mapping[str, Any]) -> str:
    count = f"{difference['differing']} of {difference['numel']} elements of {printable(difference['name'])} differ"
    figures = (
        f"max abs {_number(difference['max_abs'])} at {difference['place']}, "
        f"max rel {_number(difference['max_rel'])}, max ulp {difference['max_ulp']}"
    )
    psnr = difference["psnr"]
    return f"{count}; {figures}" + (f", PSNR {float(psnr):.1f} dB" if psnr is not None else "")


def _percentiles(difference: Mapping[str, Any]) -> str:
    pairs = zip(_QUANTILES, difference["percentiles"], strict=False)
    return ", ".join(f"{quantile}%: {_number(value)}" for quantile, value in pairs)


def _number(value: float | str) -> str:
    """Infinite and missing numbers come as words."""
    return f"{float(value):.3g}"
