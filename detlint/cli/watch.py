"""`--watch`: lint again whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from detlint.config import ConfigResolver
from detlint.errors import DetlintError
from detlint.linter.source.discovery import discover

_SECONDS = 0.5


def watch(paths: Sequence[str], resolver: Callable[[], ConfigResolver], run: Callable[[], int]) -> int:
    """Run now and after every change of a file behind `paths`, or of a configuration, until interrupted.

    `resolver` makes one that has read no configuration yet.

    Raises:
        DetlintError: the first run says that something on the command line or in a configuration is wrong.
    """
    first = True
    try:
        while True:
            seen = _stamps(paths, resolver())
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
            while _stamps(paths, resolver()) == seen:
                time.sleep(_SECONDS)
    except KeyboardInterrupt:
        return 0


def _stamps(paths: Sequence[str], resolver: ConfigResolver) -> dict[Path, tuple[int, int]]:
    """Return size and time of every file and its configuration; what cannot be told counts as changed.

    Editors take a file away for a moment when they save it.
    """
    stamps: dict[Path, tuple[int, int]] = {}
    try:
        for found in discover(paths, resolver):
            for path in (found.path, resolver.for_file(found.path).source):
                if path is not None and path not in stamps:
                    stamps[path] = _stamp(path)
    except DetlintError:
        stamps.clear()
    return stamps


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
