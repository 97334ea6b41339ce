"""Looking for files where one may not look, and writing them so that nobody ever sees half of one."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from detlint.errors import UsageError


def is_file(path: Path) -> bool:
    """Whether there is a file: none where one may not look, and none by a name too long to be one."""
    return os.path.isfile(path)  # noqa: PTH113 - up to Python 3.13 `Path.is_file` raises there


def exists(path: Path) -> bool:
    """Whether there is anything, in the same way."""
    return os.path.exists(path)  # noqa: PTH110


def holds_python(folder: Path) -> bool:
    """Whether a Python file stands in a folder itself; none does where one may not look."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(".py") for entry in entries)
    except OSError:
        return False


def write_atomically(path: Path, data: bytes, *, through_links: bool = True) -> None:
    """Replace what `path` holds by `data`, keeping its permissions; links are written through, or replaced themselves.

    What is no file, such as /dev/null, and what this process prints to, such as /dev/stdout, is written to as it is.

    Raises:
        UsageError: the folder does not exist or may not be written to.
    """
    try:
        there = _status(path, through_links)
        opened = None if there is None else _opened(path, there)
        if opened is not None:
            with opened as stream:
                stream.write(data)
            return
        mode = there.st_mode & 0o777 if there is not None and stat.S_ISREG(there.st_mode) else 0o666 & ~_umask()
        _replace(path.resolve() if through_links else path, data, mode)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _status(path: Path, through_links: bool) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=through_links)
    except FileNotFoundError:
        return None


def _opened(path: Path, there: os.stat_result) -> IO[bytes] | None:
    """Open what must not be replaced: the file behind stdout or stderr, and what is neither file nor link."""
    for printed in filter(None, (sys.__stdout__, sys.__stderr__)):
        with suppress(OSError, ValueError):  # closed
            if os.path.samestat(os.fstat(printed.fileno()), there):
                printed.flush()
                return os.fdopen(os.dup(printed.fileno()), "wb")  # goes on where printing stopped
    if stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode):
        return None
    return path.open("wb")


def _replace(target: Path, data: bytes, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
