"""Plant a fault into a file that nobody here wrote: does detlint find it?

    python benchmarks/planted_faults.py --cache DIR                   every kind of fault, up to 60 places each
    python benchmarks/planted_faults.py --cache DIR --only missing-eval --show
                                                                      one kind, with the places that stay silent

Takes the packages of `benchmarks/labels/`, unpacked in DIR by `accuracy.py --cache DIR`. A kind of fault is an edit
that takes the care out of code that took it: an `eval()` or a seed is dropped, a sorted listing is left unsorted.
Each place is edited alone, in memory; found is a finding of the fault's codes that the file as it was does not
have. Not every edit makes a hazard (an `eval()` on a model without dropout, a list that is only counted), so the
share says how detlint compares with itself before a change, not how many hazards it finds.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from accuracy import LABELS, SPLITS, read_labels
from fault_kinds import FAULTS, Edit, Fault

from detlint.config import ConfigResolver
from detlint.findings import Finding
from detlint.linter.engine import lint_stdin

MOST_FILES = 20_000  # of some 90,000 in the development set: looking for rare places in all of them takes minutes
A_PACKAGE = 3  # places a package and kind of fault: code repeats itself within a package


@dataclass(frozen=True)
class Planted:
    """One place with a fault, ready to lint."""

    fault: Fault
    path: Path
    line: int
    source: bytes


def main() -> int:
    """Plant, lint and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for archives and unpacked trees")
    parser.add_argument("--split", choices=SPLITS, default="development", help="the packages of which set")
    parser.add_argument("--places", type=int, default=60, help="places a kind of fault")
    parser.add_argument("--draw", default="", help="any word: other places, drawn by it")
    parser.add_argument("--only", choices=[fault.name for fault in FAULTS], action="append", help="these kinds alone")
    parser.add_argument("--show", action="store_true", help="list the places that stay silent (development set only)")
    parser.add_argument("--jobs", type=int, default=2, help="processes to lint with")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if not arguments.only or fault.name in arguments.only]
    files = sorted(
        _files(arguments.cache, arguments.split), key=lambda path: _rank(path, arguments.cache, arguments.draw)
    )
    if not files:
        parser.error(f"{arguments.cache} holds none of the packages: run accuracy.py --cache {arguments.cache} first")
    planted = sorted(
        _places(faults, files[:MOST_FILES], arguments.cache, arguments.places), key=lambda place: place.fault.name
    )
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(is_found, planted, chunksize=4))
    print(f"{arguments.split} set\n\n{'fault':<22}{'planted':>8}{'found':>8}{'share':>8}")
    for fault in faults:
        results = [result for place, result in zip(planted, found, strict=True) if place.fault is fault]
        print(f"{fault.name:<22}{len(results):>8}{sum(results):>8}{sum(results) / max(len(results), 1):>8.2f}")
    if arguments.show and arguments.split == "development":
        silent = (place for place, result in zip(planted, found, strict=True) if not result)
        print("", *(f"{place.fault.name}: {place.path}:{place.line}" for place in silent), sep="\n")
    return 0


def _rank(path: Path, cache: Path, draw: str) -> bytes:
    """A place in an order that nobody chose, and that is the same on every machine."""
    return hashlib.sha256((draw + path.relative_to(cache).as_posix()).encode()).digest()


def is_found(place: Planted) -> bool:
    """Return whether the edited file has a finding of the fault's codes that it did not have before."""
    resolver = ConfigResolver(isolated=True)
    before, after = (
        lint_stdin(source, str(place.path), resolver=resolver).findings
        for source in (place.path.read_bytes(), place.source)
    )
    known = {_identity(finding) for finding in before}
    return any(finding.code in place.fault.codes and _identity(finding) not in known for finding in after)


def _identity(finding: Finding) -> tuple[str, int]:
    return finding.code, finding.location.line


def _files(cache: Path, split: str) -> Iterator[Path]:
    """Yield every module of the packages whose labels belong to the set."""
    chosen = dict.fromkeys(file.archive for file in read_labels(LABELS) if file.split == split)
    for archive in chosen:
        yield from (cache / f"{archive}.tree").rglob("*.py")


def _places(faults: Sequence[Fault], files: Sequence[Path], cache: Path, most: int) -> Iterator[Planted]:
    """Yield the first `most` places of each kind in the order of the files, a few a package."""
    count: Counter[str] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    for path in files:
        package = path.relative_to(cache).parts[0]
        open_faults = [each for each in faults if count[each.name] < most and used[each.name, package] < A_PACKAGE]
        try:
            text = path.read_bytes().decode("utf-8")
            tree = ast.parse(text) if any(each.word in text for each in open_faults) else None
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for fault in open_faults if tree is not None else ():
            places = ((edits[0].node.lineno, _edited(text, edits)) for edits in fault.edits(tree))
            line, source = next(((line, source) for line, source in places if source is not None), (0, None))
            if source is not None:
                count[fault.name] += 1
                used[fault.name, package] += 1
                yield Planted(fault, path, line, source)


def _edited(text: str, edits: Sequence[Edit]) -> bytes | None:
    """Return the file with the edits, each on the lines it had; None if it is no Python then."""
    lines = text.encode().splitlines(keepends=True)
    for edit in sorted(edits, key=lambda edit: (edit.node.lineno, edit.node.col_offset), reverse=True):
        node = edit.node
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        rest = lines[last][node.end_col_offset :]
        blank = b"\\\n" * (last - first)  # later lines stay where they are
        lines[first : last + 1] = [lines[first][: node.col_offset] + edit.text.encode() + b" " + blank + rest]
    edited = b"".join(lines)
    try:
        ast.parse(edited)
    except (SyntaxError, ValueError):
        return None
    return edited


if __name__ == "__main__":
    sys.exit(main())
