"""`detlint compare`: two records, the first operator that departs, and what could explain it."""

from __future__ import annotations

from pathlib import Path

import click

import detlint
from detlint.cli.output import Output

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("one", metavar="A.detlint", type=_FILE)
@click.argument("two", metavar="B.detlint", type=_FILE)
@click.option(
    "--allow",
    type=click.Choice(["rounding", "bitwise"]),
    default="rounding",
    show_default=True,
    help="How far results may differ.",
)
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=_FILE, help="Write the report to this file.")
@click.option("--no-color", is_flag=True, help="No colours; so does NO_COLOR. FORCE_COLOR=1 colours pipes.")
def compare(one: Path, two: Path, allow: str, style: str, output: Path | None, no_color: bool) -> int:
    """Compare two records of `detlint record`: where do they depart, and what could explain it?"""
    found = detlint.compare(one, two, allow=allow)
    target = Output.to(output, no_color=no_color)
    target.write(found.to_json() if style == "json" else found.to_text(color=target.color))
    return 0 if found.ok else 1
