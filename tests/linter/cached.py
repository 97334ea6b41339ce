"""A program, and runs over it that take from the cache what they can."""

from __future__ import annotations

import os
import time
from pathlib import Path

from detlint.config import ConfigResolver
from detlint.linter.cache import Cache
from detlint.linter.engine import lint_paths
from detlint.linter.jobs import Job, Options
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import discover

PROGRAM = (
    "import torch\nfrom helper import prepare\n\nif __name__ == '__main__':\n    prepare()\n    print(torch.rand(3))\n"
)
SEEDING = "import torch\n\ndef prepare():\n    torch.manual_seed(0)\n"
IDLE = "def prepare():\n    pass\n"


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (1_000_000_000, 1_000_000_000))  # old enough to be kept
    time.sleep(0.03)  # and not changed within a tick of the file system's clock


def lint(cached: bool = True) -> LintResult:
    return lint_paths(["."], resolver=ConfigResolver(), jobs=1, cached=cached)


def held(project: Path) -> set[str]:
    """Return the files that a new run would take from the cache."""
    resolver = ConfigResolver()
    cache = Cache(project, Options())
    jobs = [Job(found.path, found.display, resolver.for_file(found.path)) for found in discover(["."], resolver)]
    return {job.display for job in jobs if cache.get(job) is not None}
