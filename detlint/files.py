"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from detlint.errors import UsageError


def write_atomically(path: Path, data: bytes, *, through_links: bool = True) -> None:
    """Replace what `path` holds by `data`, keeping its permissions; links are written through, or replaced themselves.

    Raises:
        UsageError: the folder does not exist or may not be written to.
    """
    try:
        there = _status(path, through_links)
        mode = there.st_mode & 0o777 if there is not None and stat.S_ISREG(there.st_mode) else 0o666 & ~_umask()
        _replace(path.resolve() if through_links else path, data, mode)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _status(path: Path, through_links: bool) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=through_links)
    except FileNotFoundError:
        return None


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
