"""`detlint ops` as text: one line an entry, one block an entry where asked for by name, or what an upgrade changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from detlint.operators import CAUSES, EVIDENCE, WITH_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from detlint.operators import Operator, Version
    from detlint.upgrades import Change

_VERDICTS = {"deterministic": "on request", "error": "raises", "unaffected": "differs"}


def render_operators(operators: Sequence[Operator]) -> str:
    """Return a table: name, devices, passes, what it does under the flag, cause."""
    rows = [
        (
            operator.name,
            ", ".join(operator.devices),
            ", ".join(operator.passes),
            _VERDICTS[operator.with_flag],
            operator.cause,
        )
        for operator in operators
    ]
    header = ("name", "devices", "pass", "with the flag", "cause")
    return _table([header, *rows])


def render_details(operators: Sequence[Operator]) -> str:
    """Return everything the table says about these entries."""
    return "\n".join("\n".join(_details(operator)) + "\n" for operator in operators)


def render_changes(changes: Sequence[Change]) -> str:
    """Return what differs between two releases, one hazard a line."""
    return _table([("hazard", "before", "after", "remedy"), *(_change(change) for change in changes)])


def _change(change: Change) -> tuple[str, str, str, str]:
    current = change.after
    return (
        change.name,
        _verdict(change.before),
        _verdict(current),
        "" if current is None else current.instead,
    )


def _verdict(operator: Operator | None) -> str:
    return "-" if operator is None else _VERDICTS[operator.with_flag]


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)


def _details(operator: Operator) -> Iterator[str]:
    yield operator.name
    facts = {
        "public": ", ".join(trigger.name for trigger in operator.python),
        "aten": ", ".join(operator.aten),
        "forward": ", ".join(operator.forward),
        "chosen by": _chosen_by(operator),
        "where": f"{', '.join(operator.devices)}; {', '.join(operator.passes)}",
        "when": condition_text(operator.when),
        "releases": _releases(operator.since, operator.until),
        "flag": WITH_FLAG[operator.with_flag],
        "cause": CAUSES[operator.cause],
        "instead": operator.instead,
        "note": operator.note,
        "rule": operator.rule + (f", auditor only: {operator.auditor_only}" if operator.auditor_only else ""),
        "evidence": EVIDENCE[operator.evidence],
        "source": "; ".join(operator.source),
    }
    for key, value in facts.items():
        if value:
            yield f"  {key:<9} {value}"


def _chosen_by(operator: Operator) -> str:
    """Return the options by which other libraries call it, and where they ask for its deterministic form instead."""
    unless = f", unless {operator.chosen_unless} is set" if operator.chosen_unless else ""
    return condition_text(operator.chosen_by) + unless if operator.chosen_by else ""


def _releases(since: Version, until: Version | None) -> str:
    first = "{}.{}".format(*since)
    return f"{first} on" if until is None else "{} to before {}.{}".format(first, *until)


def condition_text(when: Mapping[str, object]) -> str:
    """Return a condition in one line, as one would write it in TOML, without the outer braces."""
    return ", ".join(f"{key} = {_toml(value)}" for key, value in when.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {condition_text(value)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
