"""`detlint ops`: which operators can differ from run to run, in which release, where and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from detlint.errors import UsageError, did_you_mean
from detlint.operators import CONFIRMED, NEWEST, by_aten_name, in_force, load_operators, matching, parse_version
from detlint.reports.operators_text import render_changes, render_details, render_operators
from detlint.settings import read_torch_version
from detlint.tables import DEVICES, PASSES
from detlint.upgrades import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.operators import Operator


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--torch", "release", default=CONFIRMED, show_default=True, metavar="RELEASE", help="Which release of torch?"
)
@click.option(
    "--device", "devices", type=click.Choice(DEVICES), multiple=True, help="Only on this device (may be repeated)."
)
@click.option("--pass", "passes", type=click.Choice(PASSES), multiple=True, help="Only in this pass.")
@click.option("--diff", nargs=2, metavar="OLD NEW", help="What does an upgrade of torch change?")
@click.option("--json", "as_json", is_flag=True, help="Print entries as they stand in the table.")
def ops(
    names: tuple[str, ...],
    release: str,
    devices: tuple[str, ...],
    passes: tuple[str, ...],
    diff: tuple[str, str] | None,
    as_json: bool,
) -> None:
    """List the operators whose results can differ, or say all about those whose name holds NAME."""
    for text in (release, *(diff or ())):
        read_torch_version("torch release", text)
        if parse_version(text) > parse_version(NEWEST):
            click.echo(f"detlint: torch {text}: the table ends with {NEWEST}", err=True)
    operators = _named(names)
    devices, passes = devices or DEVICES, passes or PASSES
    if diff:
        found = changes(operators, *diff, devices=devices, passes=passes)
        rows = [
            {
                "name": change.name,
                "change": change.kind,
                "before": change.before and change.before.table,
                "after": change.after and change.after.table,
            }
            for change in found
        ]
        click.echo(json.dumps(rows, indent=2) if as_json else render_changes(found), nl=as_json)
        return
    operators = in_force(operators, torch_version=release, devices=devices, passes=passes)
    if as_json:
        click.echo(json.dumps([operator.table for operator in operators], indent=2))
    else:
        click.echo((render_details if names else render_operators)(operators), nl=False)


def _named(names: Sequence[str]) -> tuple[Operator, ...]:
    operators = load_operators()
    names = [_as_in_table(name) for name in names]
    for name in names:
        if not matching(operators, [name]):
            known = dict.fromkeys(each for operator in operators for each in operator.names)
            last = name.rpartition(".")[2]
            same = next((f"; did you mean {each!r}?" for each in known if each.rpartition(".")[2] == last), "")
            raise UsageError(f"{name}: no operator of that name{same or did_you_mean(name, known)}")
    return matching(operators, names) if names else operators


def _as_in_table(name: str) -> str:
    """Spell an operator of torch as the table does: reports write `aten.index_add_.default`."""
    namespace, dot, called = name.partition(".")
    if namespace != "aten" or not dot:
        return name
    known = by_aten_name(load_operators())
    spelt = (f"aten::{called}", f"aten::{called.partition('.')[0]}")  # without overload a name stands for all of them
    return next((each for each in spelt if each in known), name)
