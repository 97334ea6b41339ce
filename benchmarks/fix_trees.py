"""Fixes whole trees of real code and checks what must hold of any fix.

    python benchmarks/fix_trees.py TREE...

Each tree is copied; `--diff` must change nothing; after `--fix --unsafe-fixes` every file that parsed still parses, no
file that was not named has changed, modes and line endings are as they were, and a second run changes nothing.
Prints one line a tree, and one for each thing that does not hold.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-m", "detlint", "check", "--isolated", "--no-cache", "--extend-select", "DET3")


@dataclass(frozen=True)
class State:
    """What a file is like: its bytes, permissions, and whether it parses."""

    content: bytes
    mode: int
    parses: bool

    @property
    def endings(self) -> frozenset[str]:
        bare = self.content.replace(b"\r\n", b"")
        kinds = {"\r\n": b"\r\n" in self.content, "\r": b"\r" in bare, "\n": b"\n" in bare}
        return frozenset(kind for kind, there in kinds.items() if there)


def main(trees: list[str]) -> int:
    wrong = 0
    for tree in trees:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / Path(tree).name
            shutil.copytree(tree, copy)
            complaints, fixes, files = check(copy)
        seconds = time.perf_counter() - began
        made = ", ".join(f"{code} {count}" for code, count in sorted(fixes.items()))
        print(f"{Path(tree).name}: {files} files, {sum(fixes.values())} fixes ({made}), {seconds:.0f} s")
        for complaint in complaints:
            print(f"  WRONG {complaint}")
        wrong += len(complaints)
    return int(wrong > 0)


def check(tree: Path) -> tuple[list[str], Counter[str], int]:
    """Return what does not hold, how many fixes of each rule were made, and the number of files."""
    before = states(tree)
    run(tree, "--diff", "--unsafe-fixes")
    complaints = [f"{name}: --diff changed it" for name, state in states(tree).items() if state != before.get(name)]
    said = run(tree, "--fix", "--unsafe-fixes")
    after = states(tree)
    named, fixes = reported(said)
    for name, old in before.items():
        new = after[name]
        if old.parses and not new.parses:
            complaints.append(f"{name}: does not parse any more")
        if (old.mode, old.endings) != (new.mode, new.endings):
            complaints.append(f"{name}: mode or line endings changed")
        if (old.content != new.content) is not (name in named):
            complaints.append(f"{name}: changed and not named, or the other way round")
    complaints += [f"{name}: left behind" for name in sorted(after.keys() - before.keys())]
    run(tree, "--fix", "--unsafe-fixes")
    complaints += [f"{name}: changed again" for name, state in states(tree).items() if state != after[name]]
    return complaints, fixes, len(before)


def run(tree: Path, *options: str) -> str:
    done = subprocess.run([*COMMAND, *options, "."], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tree}: {done.stderr}")
    return done.stderr


def reported(said: str) -> tuple[set[str], Counter[str]]:
    """Read the lines `a.py: fixed DET601 unsorted-listing (2), …`."""
    named, fixes = set(), Counter[str]()
    for line in said.splitlines():
        name, _, done = line.partition(": fixed ")
        named.add(name)
        for part in done.split(", "):
            code, _, count = part.split(" ")
            fixes[code] += int(count.strip("()"))
    return named, fixes


def states(tree: Path) -> dict[str, State]:
    paths = sorted(path for pattern in ("*.py", "*.ipynb") for path in tree.rglob(pattern))
    return {str(path.relative_to(tree)): state(path) for path in paths}


def state(path: Path) -> State:
    content = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(content)
    except (SyntaxError, ValueError):
        return State(content, path.stat().st_mode, False)
    return State(content, path.stat().st_mode, True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
