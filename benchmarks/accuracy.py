"""How often is detlint right on code that nobody here wrote? Precision and recall, against labels made by hand.

    python benchmarks/accuracy.py                         download the packages with pip, lint the labelled files
    python benchmarks/accuracy.py --cache DIR             keep archives and unpacked trees in DIR (about 3 GB)
    python benchmarks/accuracy.py --show development      also list false findings and missed labels of that set

`benchmarks/labels/` names package, version, file, SHA-256 and line; no line of the code itself. Packages and files
marked `opened = true` are the development set, which rules may be tuned on; the others, the test set, are for measuring
only, and nobody who changes rules looks at them. What a file says goes before what its package says. A label that two
experts could dispute (`certain = false`) counts neither for nor against. Packages are downloaded with pip, which runs
the build script of those that come as source archives.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli
from archives import Archive

from detlint.config import ConfigResolver
from detlint.findings import Finding, Location
from detlint.linter.engine import lint_paths
from detlint.settings import Settings

LABELS = Path(__file__).parent / "labels"
SPLITS = ("development", "test")
NOT_LABELLED = ("DET001", "DET002")  # a file that cannot be parsed and an idle comment are no hazards


@dataclass(frozen=True)
class Label:
    """A place that deserves a finding. `also` are lines that would be equally right; lines count within `cell`."""

    line: int
    code: str
    certain: bool
    reason: str
    cell: int | None = None
    also: tuple[int, ...] = ()

    def matches(self, finding: Finding) -> bool:
        return finding.code == self.code and self._is_at(finding.location)

    def is_covered_by(self, finding: Finding) -> bool:
        """Whether the finding names the place: as its own, or among the others of the same kind that it lists."""
        places = (finding.location, *(related.location for related in finding.related))
        return finding.code == self.code and any(self._is_at(place) for place in places)

    def _is_at(self, place: Location) -> bool:
        return place.cell == self.cell and place.line in (self.line, *self.also)


@dataclass(frozen=True)
class LabelledFile:
    """A file that was read by hand, all of it: where no label stands, a finding is false."""

    package: str
    version: str
    archive: str
    path: str
    sha256: str
    labels: tuple[Label, ...]
    opened: bool = False

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}/{self.path}"

    @property
    def split(self) -> str:
        return "development" if self.opened else "test"


@dataclass
class Score:
    """Counts per code over one set; `notes` are its false findings and missed labels."""

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    true: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    neutral: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, file: LabelledFile, findings: Sequence[Finding]) -> None:
        for finding in findings:
            judged = [label.certain for label in file.labels if label.matches(finding)]
            (self.true if any(judged) else self.neutral if judged else self.false)[finding.code] += 1
            if not judged:
                place = finding.location
                self._note("false", file, place.cell, place.line, finding.code, finding.message)
        for label in file.labels:
            if label.certain:
                found = any(label.is_covered_by(finding) for finding in findings)
                (self.found if found else self.missed)[label.code] += 1
                if not found:
                    self._note("missed", file, label.cell, label.line, label.code, label.reason)

    def _note(self, kind: str, file: LabelledFile, cell: int | None, line: int, code: str, text: str) -> None:
        place = f"cell {cell}:{line}" if cell is not None else str(line)
        self.notes.append(f"{kind:<7} {file.name}:{place}: {code} {text}")

    def table(self) -> Iterator[str]:
        yield f"{'rule':<8}{'labels':>8}{'found':>8}{'true':>8}{'false':>8}{'neutral':>9}{'precision':>11}{'recall':>8}"
        counters = (self.found, self.missed, self.true, self.false, self.neutral)
        for code in sorted(set().union(*counters)):
            yield _row(code, *(counter[code] for counter in counters))
        yield _row("total", *(counter.total() for counter in counters))


def main() -> int:
    """Lint the labelled files and print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="folder for archives and unpacked trees (default: a temporary one)")
    parser.add_argument("--show", choices=SPLITS, action="append", default=[], help="list what is wrong in that set")
    parser.add_argument("--jobs", type=int, default=1, help="processes to lint with")
    arguments = parser.parse_args()
    files = read_labels(LABELS)
    with tempfile.TemporaryDirectory() as temporary:
        cache = arguments.cache or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        paths = {str(path): file for file, path in _located(files, cache)}
        resolver = ConfigResolver(isolated=True, overrides=Settings(ignore=NOT_LABELLED))
        result = lint_paths(sorted(paths), resolver=resolver, jobs=arguments.jobs)
    if result.problems:
        print(*result.problems, sep="\n", file=sys.stderr)
        return 2
    found: defaultdict[Path, list[Finding]] = defaultdict(list)
    for finding in result.findings:
        found[Path(finding.location.path).resolve()].append(finding)
    for split in SPLITS:
        chosen = {path: file for path, file in paths.items() if file.split == split}
        score = Score()
        for path, file in sorted(chosen.items()):
            score.add(file, found[Path(path).resolve()])
        labels = Counter(label.certain for file in chosen.values() for label in file.labels)
        packages = {file.package for file in chosen.values()}
        print(f"\n{split} set: {len(chosen)} files of {len(packages)} packages, ", end="")
        print(f"{labels[True]} certain labels, {labels[False]} uncertain ones\n")
        print(*score.table(), sep="\n")
        if split in arguments.show:
            print("", *score.notes, sep="\n")
    return 0


def read_labels(folder: Path) -> tuple[LabelledFile, ...]:
    """Return every labelled file of the folder.

    Raises:
        KeyError, TypeError: a key is missing or unknown.
    """
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("*.toml"))]
    return tuple(file for text in texts for file in _files_of(tomli.loads(text)))


def _located(files: Sequence[LabelledFile], cache: Path) -> Iterator[tuple[LabelledFile, Path]]:
    """Yield each file with its place; a package that pip cannot download here is left out, with a line about it."""
    missing: set[str] = set()
    for file in files:
        if file.archive not in missing:
            try:
                yield file, locate(file, cache)
            except subprocess.CalledProcessError:
                missing.add(file.archive)
                print(f"left out: {file.archive}: pip cannot download it here", file=sys.stderr)


def locate(file: LabelledFile, cache: Path) -> Path:
    """Return where the file lies under the cache, after download and unpacking; other content ends the run."""
    path = Archive(file.package, file.version, file.archive).tree(cache) / file.path
    if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
        raise SystemExit(f"{file.name}: not the file that was labelled")
    return path


def _files_of(document: dict[str, Any]) -> Iterator[LabelledFile]:
    for file in document.pop("file"):
        labels = [Label(**{**label, "also": tuple(label.get("also", ()))}) for label in file.pop("label", ())]
        yield LabelledFile(**{**document, **file}, labels=tuple(labels))


def _row(name: str, found: int, missed: int, true: int, false: int, neutral: int) -> str:
    row = f"{name:<8}{found + missed:>8}{found:>8}{true:>8}{false:>8}{neutral:>9}"
    return f"{row}{_share(true, true + false):>11}{_share(found, found + missed):>8}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
