"""Paths as servers count them: from the top of the repository that a job has checked out, wherever detlint ran."""

from __future__ import annotations

import os
from pathlib import Path


def path_in_checkout(path: str, root: Path, variable: str) -> str:
    """Return a path, relative to `root`, from the folder that an environment variable of the server names.

    As it is outside of such jobs, and of files that lie elsewhere.
    """
    checkout = os.environ.get(variable)
    if not checkout:
        return path
    try:
        return (root / path).resolve().relative_to(Path(checkout).resolve()).as_posix()
    except ValueError:
        return path
