"""`detlint env`: on what does this machine compute?"""

from __future__ import annotations

import json

import click

import detlint
from detlint.reports.environment_text import render_environment


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def env(as_json: bool) -> None:
    """Show what decides the bits of a result here: versions, hardware, settings, variables."""
    environment = detlint.read_environment(initialize_cuda=True)
    if as_json:
        click.echo(json.dumps({"version": 1, **environment.to_dict()}, indent=2))
        return
    from detlint.runtime.environment import effect

    effects = {name: effect(name) or "" for name, _ in environment.variables}
    click.echo(render_environment(environment.to_dict(), effects), nl=False)
