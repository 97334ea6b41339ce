"""`--watch`: lint again whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click

from detlint.config import ConfigResolver
from detlint.errors import DetlintError
from detlint.linter.source.discovery import discover

_SECONDS = 0.5


def watch(paths: Sequence[str], resolver: ConfigResolver, run: Callable[[], int]) -> int:
    """Run now and after every change of a file behind `paths`, until interrupted.

    Raises:
        DetlintError: the first run says that something on the command line or in a configuration is wrong.
    """
    first = True
    try:
        while True:
            seen = _stamps(paths, resolver)
            click.clear()
            try:
                code = run()
            except DetlintError as error:
                if first:
                    raise
                click.echo(f"detlint: {error}", err=True)  # a configuration that is being edited
                code = 2
            first = False
            click.echo(
                f"{time.strftime('%H:%M:%S')}, exit code {code}. Watching for changes; Ctrl-C ends it.", err=True
            )
            while _stamps(paths, resolver) == seen:
                time.sleep(_SECONDS)
    except KeyboardInterrupt:
        return 0


def _stamps(paths: Sequence[str], resolver: ConfigResolver) -> dict[str, tuple[int, int]]:
    """Return size and time of every file; one that vanishes meanwhile counts as changed."""
    stamps = {}
    for found in discover(paths, resolver):
        try:
            status = found.path.stat()
            stamps[found.display] = (status.st_mtime_ns, status.st_size)
        except OSError:
            stamps[found.display] = (0, 0)
    return stamps
