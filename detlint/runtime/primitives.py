"""Which oneDNN primitives ran? Read from oneDNN's own verbose log, which it writes to the process's standard output.

The format is described at https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html: fields separated by
commas, among them `exec,engine,primitive,implementation,prop_kind,memory descriptors,attributes,auxiliary,problem,ms`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from torch.backends import mkldnn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_STDOUT: Final = 1
_MARKS: Final = ("onednn_verbose,", "dnnl_verbose,", "mkldnn_verbose,")
_MOVES: Final = "reorder"
"""The primitive that only copies tensors into another format."""
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive that ran: "convolution", "brgconv:avx512_core", and the problem as oneDNN writes its sizes."""

    kind: str
    implementation: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind} {self.implementation}"


def primitives_of(run: Callable[[], object]) -> tuple[Primitive, ...]:
    """Call a function and return the oneDNN primitives that ran meanwhile, without those that only move data.

    Returns nothing where torch has no oneDNN. What else is written to standard output meanwhile arrives there
    after the call. What the function raises passes through.
    """
    if not mkldnn.is_available():  # type: ignore[no-untyped-call]
        run()
        return ()
    with _LOCK, tempfile.TemporaryFile() as log:
        try:
            with _redirected(log), mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
                run()
        finally:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines(keepends=True)
            others = "".join(line for line in lines if not line.startswith(_MARKS))
            if others:
                sys.stdout.write(others)
    found = [primitive for line in lines if (primitive := read_line(line)) is not None]
    return tuple(primitive for primitive in found if primitive.kind != _MOVES)


def read_line(line: str) -> Primitive | None:
    """Read one line of the log; None if it does not tell of a primitive that was executed."""
    fields = line.strip().split(",")
    if not line.startswith(_MARKS) or "exec" not in fields:
        return None
    _, *told = fields[fields.index("exec") :]
    if len(told) < 4:
        return None
    problem = told[-2] if len(told) > 4 else ""  # the time comes last
    return Primitive(told[1], told[2], problem)


def contrast(one: Sequence[Primitive], two: Sequence[Primitive], labels: tuple[str, str]) -> str:
    """Say in a line what oneDNN ran on two sides; empty where it ran nothing."""
    first, second = (" and ".join(dict.fromkeys(map(str, side))) for side in (one, two))
    if not first and not second:
        return ""
    if first == second:
        return f"oneDNN ran {first} for both"
    return f"oneDNN ran {first or 'nothing'} for {labels[0]}, {second or 'nothing'} for {labels[1]}"


@contextmanager
def _redirected(log: IO[bytes]) -> Iterator[None]:
    """Send what the process writes to its standard output, from Python or from C, to a file."""
    _flush()
    kept = os.dup(_STDOUT)
    try:
        os.dup2(log.fileno(), _STDOUT)
        yield
    finally:
        _flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _flush() -> None:
    """Write out what Python and C hold back for standard output."""
    with suppress(ValueError, AttributeError):  # closed, or replaced by something without it
        sys.stdout.flush()
    with suppress(OSError, TypeError, AttributeError):  # where the C library goes by another name
        ctypes.CDLL(None).fflush(None)
