"""Which lines changed since a git revision? Asks git, with nothing that a repository's configuration could run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from detlint.errors import UsageError
from detlint.findings import Finding

_HUNK = re.compile(r"@@ -\S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@")
_DIFF = (
    *("diff", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_SAFELY = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "core.quotepath=on"),
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changed lines of files by absolute path; None: the whole file is new."""

    lines: dict[Path, tuple[range, ...] | None]

    def concern(self, path: Path) -> bool:
        """Return whether a file has changed lines."""
        return path.resolve() in self.lines

    def of(self, findings: Iterable[Finding], root: Path) -> Iterator[Finding]:
        """Yield the findings on changed lines; of a notebook that changed, all. Relative paths are below `root`."""
        for finding in findings:
            where = finding.location
            ranges = self.lines.get((root / where.path).resolve(), ())
            whole = ranges is None or (ranges and where.cell is not None)
            if whole or any(where.line < lines.stop and lines.start <= where.end_line for lines in ranges or ()):
                yield finding


def changes_since(revision: str, folder: Path) -> Changes:
    """Return what changed in the git repository around `folder` since a revision, files not added yet included.

    Of a branch that went on by itself the last commit in common counts: what others did there is no change here.

    Raises:
        UsageError: no git, no repository, no such revision.
    """
    top = Path(_git(folder, "rev-parse", "--show-toplevel", otherwise="not in a git repository").rstrip("\n"))
    commit = f"{revision}^{{commit}}"
    unknown = f"{revision}: no such git revision"
    found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", commit, otherwise=unknown).strip()
    common = _git(folder, "merge-base", "HEAD", found, otherwise=None).strip()
    changed = _changed(_git(top, *_without_filters(top), *_DIFF, common or found, "--", otherwise=unknown))
    lines: dict[Path, tuple[range, ...] | None] = {(top / name).resolve(): ranges for name, ranges in changed}
    untracked = _git(top, "ls-files", "--others", "--exclude-standard", "-z", otherwise=unknown)
    lines.update({(top / name).resolve(): None for name in untracked.split("\0") if name})
    return Changes(lines)


def _git(folder: Path, *arguments: str, otherwise: str | None) -> str:
    """Return what git prints. Where it fails, `otherwise` is the error, or None where no answer is one too."""
    try:
        done = subprocess.run(["git", *_SAFELY, *arguments], cwd=folder, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"--since: git cannot be run: {error.strerror}") from None
    if done.returncode and otherwise is None:
        return ""
    if done.returncode:
        raise UsageError(f"--since: {otherwise}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _without_filters(folder: Path) -> Iterator[str]:
    """Yield the options that switch off all filters: git would run them on changed files, whoever configured them."""
    keys = _git(folder, "config", "--list", "--name-only", "--null", otherwise="git's configuration cannot be read")
    names = {key.removeprefix("filter.").rpartition(".")[0] for key in keys.split("\0") if key.startswith("filter.")}
    for name in sorted(names):
        if "=" in name:
            raise UsageError(f"--since: git's filter {name!r} cannot be switched off; rename it")
        yield from (
            "-c",
            f"filter.{name}.clean=",
            "-c",
            f"filter.{name}.process=",
            "-c",
            f"filter.{name}.required=false",
        )


def _changed(diff: str) -> Iterator[tuple[str, tuple[range, ...]]]:
    """Yield the files of a diff without context that still exist, with their changed lines."""
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        name, ranges = "", []
        for line in part.split("\n"):
            hunk = _HUNK.match(line)
            if hunk is not None:
                first, count = int(hunk["first"]), int(hunk["count"] or 1)
                if count:
                    ranges.append(range(first, first + count))
            elif line.startswith("+++ ") and not ranges and not name:
                name = _name(line.removeprefix("+++ "))
        if name and name != "/dev/null" and ranges:
            yield name.removeprefix("b/"), tuple(ranges)


def _name(written: str) -> str:
    """Read a path as git writes it: in quotes, with escapes, where it holds more than plain ASCII."""
    written = written.rstrip("\t")
    if not written.startswith('"'):
        return written
    unquoted: str = ast.literal_eval(written)  # octal escapes stand for the bytes of UTF-8
    return unquoted.encode("latin-1").decode("utf-8", "surrogateescape")
