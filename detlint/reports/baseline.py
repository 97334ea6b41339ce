"""Findings that an old code base starts with: written down once, hidden from then on, and only ever fewer.

An entry is known by its code, path and source line, with how often the line occurs: moved lines stay known, and one
more finding than written down is a new one.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from detlint.errors import UsageError
from detlint.findings import Finding
from detlint.reports.fingerprints import Identity, identity
from detlint.reports.run_info import RunInfo

_VERSION = 1
_FIELDS = {"code": str, "path": str, "line": str, "count": int}


@dataclass(frozen=True)
class Baseline:
    """The findings to hide: how often each identity may occur. Paths are relative to the folder of `path`."""

    path: Path
    counts: Counter[Identity]

    def split(self, findings: Sequence[Finding], run: RunInfo) -> tuple[tuple[Finding, ...], Counter[Identity]]:
        """Return the findings that are new, and how often each of the others was met."""
        met: Counter[Identity] = Counter()
        new = []
        for finding in findings:
            key = self._key(finding, run)
            if met[key] < self.counts[key]:
                met[key] += 1
            else:
                new.append(finding)
        return tuple(new), met

    @staticmethod
    def of(path: Path, findings: Sequence[Finding], run: RunInfo) -> Baseline:
        """Return a baseline of all of these findings."""
        empty = Baseline(path, Counter())
        return Baseline(path, Counter(empty._key(finding, run) for finding in findings))

    def shrunk(self, met: Counter[Identity], looked_for: Mapping[str, Collection[str]], run: RunInfo) -> Baseline:
        """Leave out what was `looked_for` (codes by file) and not met any more, and files that are gone."""
        checked = {self._relative(path, run): codes for path, codes in looked_for.items()}
        folder = self.path.absolute().parent
        kept = {
            key: count
            for key, count in self.counts.items()
            if key[0] not in checked.get(key[1], ()) and (folder / key[1]).exists()
        }
        return Baseline(self.path, Counter({**kept, **met}))

    def text(self) -> str:
        """Return what to write to the file: sorted, so that changes of it can be read."""
        entries = [
            {"code": code, "path": path, "line": line, "count": count}
            for (code, path, line), count in sorted(self.counts.items(), key=lambda entry: (entry[0][1], entry[0]))
            if count
        ]
        return json.dumps({"version": _VERSION, "findings": entries}, indent=2) + "\n"

    def _key(self, finding: Finding, run: RunInfo) -> Identity:
        code, path, line = identity(finding, run)
        return code, self._relative(path, run), line

    def _relative(self, path: str, run: RunInfo) -> str:
        return Path(os.path.relpath(run.root / path, self.path.absolute().parent)).as_posix()


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: there is no such file, or it is not a baseline.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; --write-baseline {path} makes a baseline") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not a baseline: not JSON; restore it or write a new one") from None
    entries = document.get("findings") if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("version") != _VERSION or not all(map(_is_entry, entries)):
        raise UsageError(f"{path}: not a baseline that this detlint can read; restore it or write a new one")
    counts: Counter[Identity] = Counter()
    for entry in entries:
        counts[entry["code"], entry["path"], entry["line"]] += entry["count"]
    return Baseline(path, counts)


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), kind) for name, kind in _FIELDS.items())
