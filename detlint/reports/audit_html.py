"""An audit as one HTML page that needs no other file, or as a fragment for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from detlint.reports.audit_text import PROBE_COLUMNS, AuditText, modules_of, word_for
from detlint.reports.run_info import SourceLines, no_source

_STYLE = """
.detlint { font: 14px/1.45 system-ui, sans-serif; color: #1d2330; max-width: 70rem; }
.detlint h1 { font-size: 1.3rem; } .detlint h2 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
.detlint table { border-collapse: collapse; }
.detlint th, .detlint td { padding: .2rem .7rem; border-bottom: 1px solid #d8dce4; text-align: left; }
.detlint td { vertical-align: top; }
.detlint td.figure { text-align: right; font-variant-numeric: tabular-nums; }
.detlint pre { background: #f4f5f8; padding: .7rem; overflow-x: auto; }
.detlint .bad { color: #b3261e; font-weight: 600; } .detlint .good { color: #1b6e3c; font-weight: 600; }
.detlint .weak { color: #946200; } .detlint .dim { color: #6b7280; }
"""
_CLASSES = {
    "bitwise": "good",
    "rounding": "weak",
    "beyond-rounding": "bad",
    "error": "bad",
    "skipped": "dim",
    "warning": "weak",
    "info": "dim",
}


def render(report: Mapping[str, Any], source_lines: SourceLines = no_source) -> str:
    """Return a whole page for a document of `audit_json`."""
    title = escape(f"detlint audit of {report['model']}")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n</head>\n'
        f"<body>\n{body(report, source_lines)}</body>\n</html>\n"
    )


def body(report: Mapping[str, Any], source_lines: SourceLines = no_source) -> str:
    """Return the fragment, with its style."""
    text = AuditText(report, source_lines=source_lines)
    parts = [
        f"<style>{_STYLE}</style>",
        _verdict(report),
        _table(PROBE_COLUMNS, map(_probe_row, text.probe_rows())),
        _block("first divergence", text.first_divergence()),
        "<h2>findings</h2>" if report["findings"] else "",
        _table(("rule", "place", "what", "remedy"), map(_finding_row, text.finding_groups())),
        _list("not seen", report["blind_spots"]),
        _list("problems", report["problems"]),
    ]
    return '<div class="detlint">\n' + "\n".join(part for part in parts if part) + "\n</div>\n"


def _verdict(report: Mapping[str, Any]) -> str:
    word, style = word_for(report), "good" if report["ok"] else "bad"
    lines = "".join(f"<li>{escape(failure)}</li>" for failure in report["failures"])
    heading = f'<h1><span class="{style}">{word}</span> {escape(report["model"])}</h1>'
    return f"{heading}<ul>{lines}</ul>" if lines else heading


def _probe_row(row: tuple[str, ...]) -> str:
    name, verdict, *figures, operator, cause = row
    cells = "".join(f'<td class="figure">{escape(figure)}</td>' for figure in figures)
    shown = f'<td class="{_CLASSES[verdict]}">{escape(verdict)}</td>{cells}'
    return f"<td>{escape(name)}</td>{shown}<td>{escape(operator)}</td><td>{escape(cause)}</td>"


def _finding_row(group: Sequence[Mapping[str, Any]]) -> str:
    finding = group[0]
    style = _CLASSES.get(finding["severity"], "bad")
    rule = f'<span class="{style}">{escape(finding["code"])}</span> {escape(finding["name"])}'
    module = f"<br>{escape(modules_of(group))}" if finding["module"] else ""
    return (
        f"<td>{rule}</td><td>{escape(finding['path'])}:{finding['line']}{module}</td>"
        f"<td>{escape(finding['message'])}</td><td>{escape(finding['remedy'])}</td>"
    )


def _table(header: tuple[str, ...], rows: Iterator[str]) -> str:
    lines = "\n".join(f"<tr>{row}</tr>" for row in rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in header)
    return f"<table>\n<tr>{names}</tr>\n{lines}\n</table>" if lines else ""


def _block(title: str, lines: Iterator[str]) -> str:
    text = "\n".join(lines)
    return f"<h2>{escape(title)}</h2>\n<pre>{escape(text)}</pre>" if text else ""


def _list(title: str, lines: list[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if items else ""
