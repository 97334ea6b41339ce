"""Where a report goes: a terminal, a pipe or a file, and what it may look like there."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from detlint.errors import UsageError
from detlint.files import write_atomically

_PIPE_WIDTH = 110


def check_writable(path: Path) -> None:
    """Make sure, as far as can be told, that a file can be written, before anything else is done.

    Raises:
        UsageError: the folder does not exist or may not be written to.
    """
    try:
        folder = path.resolve().parent
    except (OSError, RuntimeError):  # as Python up to 3.12 says it
        raise UsageError(f"{path}: cannot be written: {os.strerror(errno.ELOOP)}") from None
    if path.is_dir():
        reason = errno.EISDIR
    elif not folder.is_dir():
        reason = errno.ENOTDIR if folder.exists() else errno.ENOENT
    elif not any(os.access(place, os.W_OK) for place in (path, folder)):
        reason = errno.EACCES
    else:
        return
    raise UsageError(f"{path}: cannot be written: {os.strerror(reason)}")


@dataclass(frozen=True, slots=True)
class Output:
    """Colour is for terminals whose user has not said no, and for users who force it; the width is a terminal's."""

    file: Path | None
    color: bool
    width: int
    err: bool

    @classmethod
    def to(cls, file: Path | None, *, no_color: bool, err: bool = False) -> Output:
        """Return the output for `--output` and `--no-color` as given; `err`: stderr, as stdout is taken."""
        on_terminal = (sys.stderr if err else sys.stdout).isatty()
        refused = no_color or bool(os.environ.get("NO_COLOR"))
        wanted = _is_forced() or (on_terminal and os.environ.get("TERM") != "dumb")
        color = file is None and not refused and wanted
        return cls(file, color, shutil.get_terminal_size().columns if color and on_terminal else _PIPE_WIDTH, err)

    def write(self, report: str) -> None:
        """Write the whole report; a file is replaced in one step."""
        if self.file is None:
            click.echo(report, nl=False, color=self.color, err=self.err)
        else:
            write_atomically(self.file, report.encode("utf-8", "backslashreplace"))


def _is_forced() -> bool:
    """Is colour wanted wherever the report goes, as in the logs of CI servers?"""
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
