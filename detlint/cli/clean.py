"""`detlint clean`: remove what detlint keeps between runs."""

from __future__ import annotations

from pathlib import Path

import click

from detlint.config import ConfigResolver
from detlint.linter import cache


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="Use this file and look for no other.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def clean(config: Path | None, isolated: bool) -> None:
    """Remove the cache of the current folder's project."""
    root = ConfigResolver(file=config, isolated=isolated).for_folder(Path.cwd()).root
    folder = root / cache.FOLDER
    click.echo(f"removed {folder}" if cache.clean(root) else f"{folder}: nothing there")
