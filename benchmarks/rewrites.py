"""Does detlint find the same in the same program, written in another way?

    python benchmarks/rewrites.py                       every example of every rule under every rewrite: a table
    python benchmarks/rewrites.py --rule DET601 --list  one rule; also what is lost or new where

Each example of `rules/` is rewritten in ways that keep what it does (`benchmarks/rewriting/`): a call moves into a
helper, a constant into a configuration, functions into a class or another file, a loop becomes a comprehension. A
finding that a bad example loses is *lost*; one more than before, in a good example above all, is *new*. Findings are
counted by code in all files of the example, since a rewrite moves lines. Some rewrites take away what a rule goes by,
such as a name that tells something.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rewriting import REWRITES, rewritten

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.rulebook import Example, load_rules
from detlint.settings import Settings

AS_WRITTEN = ""
_TOGETHER = "together"


@dataclass(frozen=True)
class Case:
    """An example of a rule under a rewrite."""

    code: str
    kind: str
    number: int
    title: str
    rewrite: str

    @property
    def example(self) -> tuple[str, str, int]:
        return self.code, self.kind, self.number


def main() -> None:
    """Lint all examples as they are written and rewritten, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", action="append", help="a code; all rules by default")
    parser.add_argument("--rewrite", action="append", choices=sorted(REWRITES), help="all by default")
    parser.add_argument("--list", action="store_true", help="name the examples whose findings differ")
    parser.add_argument("--jobs", type=int, default=1, help="processes to lint with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = dict(_written(Path(folder).resolve(), arguments.rule, arguments.rewrite))
        found = linted(cases, arguments.jobs)
    plain = {case.example: counts for case, counts in found.items() if case.rewrite == AS_WRITTEN}
    totals, lost, new = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for case, counts in found.items():
        before = plain[case.example]
        for name in (case.rewrite, _TOGETHER) if case.rewrite != AS_WRITTEN else ():
            totals[name, case.kind] += 1
            lost[name, case.kind] += bool(before - counts)
            new[name, case.kind] += bool(counts - before)
        if arguments.list and before != counts:
            changes = [f"-{code}" for code in (before - counts).elements()]
            changes += [f"+{code}" for code in (counts - before).elements()]
            print(f"{case.rewrite:<20}{case.code} {case.kind} {case.number} ({case.title}): {' '.join(changes)}")
    print(f"{'rewrite':<20}{'bad':>7}{'lost':>6}{'new':>6}{'good':>7}{'new':>6}")
    for name in (*(arguments.rewrite or REWRITES), _TOGETHER):
        bad, good = (name, "bad"), (name, "good")
        print(f"{name:<20}{totals[bad]:>7}{lost[bad]:>6}{new[bad]:>6}{totals[good]:>7}{new[good]:>6}")


def _written(folder: Path, rules: list[str] | None, rewrites: list[str] | None) -> Iterator[tuple[Case, list[Path]]]:
    """Write every example under every rewrite to a folder of its own; yield its files, those of the rewrite alone."""
    for code, rule in load_rules().items():
        if rules is not None and code not in rules:
            continue
        for kind, examples in (("bad", rule.bad), ("good", rule.good)):
            for number, example in enumerate(examples, 1):
                for rewrite, texts in variants(example):
                    if rewrite == AS_WRITTEN or rewrites is None or rewrite in rewrites:
                        case = Case(code, kind, number, example.title, rewrite)
                        yield case, write(folder / f"{code}-{kind}-{number}-{rewrite}", example, texts)


def variants(example: Example) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the example as it is written, and rewritten; nothing of a notebook, or of what is not to be parsed."""
    try:
        plain = ast.unparse(ast.parse(example.code))
    except (SyntaxError, ValueError):
        return
    yield AS_WRITTEN, {"": plain}
    yield from rewritten(example.code)


def write(folder: Path, example: Example, texts: dict[str, str]) -> list[Path]:
    """Write an example to a folder in one of its forms; return the files that are of that form."""
    main = folder / example.filename
    files = {folder / "pyproject.toml": "", **{folder / name: text for name, text in (example.files or {}).items()}}
    changed = {main if name == "" else main.parent / name: text for name, text in texts.items()}
    for path, text in {**files, **changed}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return [*changed]


def linted(cases: dict[Case, list[Path]], jobs: int | None) -> dict[Case, Counter[str]]:
    """Return how many findings of each code each case has, syntax errors and idle comments left out."""
    owner = {str(path): case for case, paths in cases.items() for path in paths}
    resolver = ConfigResolver(isolated=True, overrides=Settings(ignore=("DET001", "DET002")))
    result = lint_paths(sorted(owner), resolver=resolver, jobs=jobs)
    found = {case: Counter[str]() for case in cases}
    for finding in result.findings:
        found[owner[str(Path(finding.location.path).resolve())]][finding.code] += 1
    return found


if __name__ == "__main__":
    main()
