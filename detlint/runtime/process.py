"""What belongs to the whole process and not to torch: environment variables, and how deep calls may nest."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def write_variables(wanted: Mapping[str, str | None]) -> None:
    """Set environment variables, and take away those that are None."""
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


@contextmanager
def kept_process() -> Iterator[None]:
    """Put back what a block changes, as the compiler does for its own ends."""
    variables, limit = dict(os.environ), sys.getrecursionlimit()
    try:
        yield
    finally:
        write_variables({**dict.fromkeys(os.environ), **variables})
        sys.setrecursionlimit(limit)
