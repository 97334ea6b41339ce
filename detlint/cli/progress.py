"""A line on stderr that says how far the work is, for people who have waited longer than a second."""

from __future__ import annotations

import sys
import time

import click

_AFTER_SECONDS = 1.0


class Progress:
    """Shows on a terminal only, and takes its line away on exit."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = sys.stderr.isatty()
        self._written = False

    def __enter__(self) -> Progress:
        return self

    def show(self, text: str) -> None:
        """Replace the line by `text`."""
        if self._shown and time.monotonic() - self._began > _AFTER_SECONDS:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._written = True

    def __exit__(self, *_: object) -> None:
        if self._written:
            click.echo("\r\x1b[K", nl=False, err=True)
