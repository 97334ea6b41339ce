"""How many of the findings that readers judged does detlint still give?

    python benchmarks/judged.py                           download the packages with pip, lint their judged files
    python benchmarks/judged.py --cache DIR               keep archives and unpacked trees in DIR (about 1.5 GB)
    python benchmarks/judged.py --code DET602 --show opened    also list true ones gone and false ones left

`benchmarks/judged.toml` holds findings of one revision in packages that many people download, at most two of a rule and
package, each judged by its code and its callers: true, debatable or false. Rules may be changed after those of `opened`
packages; the others are sealed, for measuring only. What a later revision reports besides is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli
from archives import Archive

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.settings import Settings

JUDGED = Path(__file__).parent / "judged.toml"
SETS = ("opened", "sealed")
VERDICTS = ("true", "debatable", "false")

Place = tuple[Path, int | None, int, str]


@dataclass(frozen=True)
class Judged:
    """A finding of one revision, and what a reader called it."""

    archive: Archive
    opened: bool
    path: str
    line: int
    code: str
    verdict: str
    why: str
    cell: int | None = None

    @property
    def set(self) -> str:
        return "opened" if self.opened else "sealed"

    def place(self, cache: Path) -> Place:
        return (self.archive.tree(cache) / self.path).resolve(), self.cell, self.line, self.code


def main() -> int:
    """Lint the judged files and print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="folder for archives and unpacked trees (default: a temporary one)")
    parser.add_argument("--code", action="append", help="only findings of this rule; may be given again")
    parser.add_argument("--show", choices=SETS, action="append", default=[], help="list what is wrong in that set")
    parser.add_argument("--jobs", type=int, default=1, help="processes to lint with")
    arguments = parser.parse_args()
    judged = [finding for finding in read_judged(JUDGED) if finding.code in (arguments.code or [finding.code])]
    with tempfile.TemporaryDirectory() as temporary:
        cache = arguments.cache or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        places = dict(_located(judged, cache))
        given = _given({place[0] for place in places.values()}, arguments.code, arguments.jobs)
    for name in SETS:
        chosen = {finding: place in given for finding, place in places.items() if finding.set == name}
        print(f"\n{name}: {len(chosen)} findings in {len({finding.archive for finding in chosen})} packages\n")
        print(*_table(chosen), sep="\n")
        if name in arguments.show:
            wrong = [finding for finding, kept in chosen.items() if kept is (finding.verdict == "false")]
            print("", *map(_line, (each for each in wrong if each.verdict != "debatable")), sep="\n")
    return 0


def read_judged(file: Path) -> tuple[Judged, ...]:
    """Return every judged finding of the file.

    Raises:
        KeyError, TypeError: a key is missing or unknown.
    """
    packages = tomli.loads(file.read_text("utf-8"))["package"]
    return tuple(
        Judged(Archive(package["package"], package["version"], package["archive"]), package["opened"], **finding)
        for package in packages
        for finding in package["findings"]
    )


def _located(judged: Sequence[Judged], cache: Path) -> Iterator[tuple[Judged, Place]]:
    """Yield each finding with its place; a package that pip cannot download here is left out, with a line about it."""
    missing: set[Archive] = set()
    for finding in judged:
        if finding.archive not in missing:
            try:
                yield finding, finding.place(cache)
            except subprocess.CalledProcessError:
                missing.add(finding.archive)
                print(f"left out: {finding.archive.name}: pip cannot download it here", file=sys.stderr)


def _given(files: set[Path], codes: Sequence[str] | None, jobs: int) -> set[Place]:
    """Return where detlint reports what: a finding's own place, and the others of its kind that it lists."""
    settings = Settings(select=tuple(codes)) if codes else Settings()
    resolver = ConfigResolver(isolated=True, overrides=settings)
    result = lint_paths(sorted(map(str, files)), resolver=resolver, jobs=jobs)
    given: set[Place] = set()
    for finding in result.findings:
        for place in (finding.location, *(related.location for related in finding.related)):
            given.add((Path(place.path).resolve(), place.cell, place.line, finding.code))
    return given


def _table(chosen: dict[Judged, bool]) -> Iterator[str]:
    """Yield for each rule how many of each verdict are left, and what share of the sure ones is true."""
    yield f"{'rule':<8}" + "".join(f"{verdict:>16}" for verdict in VERDICTS) + f"{'precision':>11}"
    rows: defaultdict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
    for finding, kept in chosen.items():
        for row in (finding.code, "total"):
            rows[row][finding.verdict, kept] += 1
    for name, counts in sorted(rows.items()):
        parts = (f"{counts[verdict, True]} of {counts[verdict, True] + counts[verdict, False]}" for verdict in VERDICTS)
        sure = counts["true", True] + counts["false", True]
        share = f"{counts['true', True] / sure:.2f}" if sure else "-"
        yield f"{name:<8}" + "".join(f"{part:>16}" for part in parts) + f"{share:>11}"


def _line(finding: Judged) -> str:
    state = "gone" if finding.verdict == "true" else "left"
    place = f"cell {finding.cell}:{finding.line}" if finding.cell is not None else str(finding.line)
    return f"{finding.verdict} {state}: {finding.archive.name}/{finding.path}:{place}: {finding.code} {finding.why}"


if __name__ == "__main__":
    sys.exit(main())
