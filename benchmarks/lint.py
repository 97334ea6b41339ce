"""How long does a lint take? detlint, ruff with all rules and TorchFix on the same trees, side by side in one run.

    python benchmarks/lint.py                  timm 1.0.31 and transformers 4.57.1, downloaded with pip
    python benchmarks/lint.py PATH …           other trees

For each tree: cold (no cache), warm (nothing changed since the last run), after a change to one file, and `--version`.
Then the growth of time and memory with the amount of code: ever more copies of one package, each a project of its own,
since what a megabyte costs depends on what stands in it.

Every command runs once before it is measured, so that none pays for a cold disk. Tools take turns, so that a machine
that slows down slows all of them. Peak memory is that of the largest process. TorchFix runs once, on the first tree,
in a temporary environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TREES = ("timm==1.0.31", "transformers==4.57.1")
PEER = "torchfix==0.7.0"
GROWN = "accelerate==1.10.1"  # 1.4 MB
COPIES = (1, 3, 10, 35)


@dataclass(frozen=True)
class Command:
    """What to run, in which folder (where its cache lies), and what to do before each run."""

    words: Sequence[str]
    folder: Path | None = None
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Measurement:
    """One run: seconds on the clock, seconds on all processors, peak memory of the largest process."""

    wall: float
    cpu: float
    megabytes: float


def main() -> None:
    """Measure and print a table for each tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, help=f"what to lint (default: {', '.join(TREES)} from PyPI)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; TorchFix runs once")
    parser.add_argument("--no-peer", action="store_true", help="leave out TorchFix, which takes a minute")
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth with size")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = [copied(tree, folder) for tree in arguments.trees] or [download(tree, folder) for tree in TREES]
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
        for tree in trees:
            measured = turns(commands(tree), arguments.runs)
            if tree is trees[0] and not arguments.no_peer:
                torchfix = install(PEER, folder / "peer") / "torchfix"
                measured["TorchFix 0.7"] = [measure([str(torchfix), "--select", "ALL", str(tree)])]
            files = sources(tree)
            lines = sum(path.read_bytes().count(b"\n") for path in files)
            print(f"\n{tree.name}: {len(files)} files, {lines:,} lines, {megabytes(files):.1f} MB")
            show(measured)
        if not arguments.no_growth:
            show_growth(download(GROWN, folder), folder / "copies")
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


def commands(tree: Path) -> dict[str, Command]:
    """Return what is measured on a tree, by name; the first is what the others are compared with."""
    detlint = [sys.executable, "-m", "detlint", "check", "--isolated", "--exit-zero", str(tree)]
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "ALL", "--no-cache", "--isolated", "--exit-zero"]
    changed = sources(tree)[0]
    return {
        "detlint, cold": Command([*detlint, "--no-cache"]),
        "ruff, all rules": Command([*ruff, "--quiet", str(tree)]),
        "detlint, warm": Command(detlint, folder=tree),
        "one file changed": Command(detlint, folder=tree, before=lambda: append_line(changed)),
        "--version": Command([sys.executable, "-m", "detlint", "--version"]),
    }


def append_line(path: Path) -> None:
    """Change a file, and let it look like one that was saved before the run began."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write("# changed\n")
    time.sleep(0.05)


def turns(tools: dict[str, Command], runs: int) -> dict[str, list[Measurement]]:
    """Run the commands in turn; the first turn warms disk and caches and does not count."""
    measured: dict[str, list[Measurement]] = {name: [] for name in tools}
    for turn in range(runs + 1):
        for name, command in tools.items():
            command.before()
            taken = measure(command.words, command.folder)
            if turn:
                measured[name].append(taken)
    return measured


def show_growth(tree: Path, folder: Path) -> None:
    """Lint ever more copies of a tree, cold, and print what a megabyte of code costs."""
    print(f"\ncopies of {tree.name}, cold\n{'code':>9} {'files':>6} {'wall / MB':>11} {'cpu / MB':>11} {'memory':>9}")
    for copies in COPIES:
        for number in range(len(list(folder.glob("*"))), copies):
            project = folder / f"project{number}"
            shutil.copytree(tree, project / tree.name)
            (project / "pyproject.toml").touch()
        files = sources(folder)
        command = [sys.executable, "-m", "detlint", "check", "--isolated", "--exit-zero", "--no-cache", str(folder)]
        taken, size = measure(command), megabytes(files)
        costs = f"{taken.wall / size:>9.2f} s {taken.cpu / size:>9.2f} s {taken.megabytes:>6.0f} MB"
        print(f"{size:>6.1f} MB {len(files):>6} {costs}")


def copied(tree: Path, folder: Path) -> Path:
    """Copy a tree, which the measurements change."""
    return Path(shutil.copytree(tree, folder / "trees" / tree.resolve().name))


def sources(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*.py") if path.is_file())


def megabytes(files: Sequence[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 1e6


def download(requirement: str, folder: Path) -> Path:
    """Unpack a wheel from the package index and return the package's folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), requirement]
    subprocess.run(pip, check=True)
    name = requirement.partition("=")[0]
    (wheel,) = folder.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "trees" / name)
    return folder / "trees" / name / name


def install(requirement: str, folder: Path) -> Path:
    """Install a package into an environment of its own and return the folder of its commands."""
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", requirement], check=True)
    return commands


def measure(command: Sequence[str], folder: Path | None = None) -> Measurement:
    """Run a command to its end in `folder`, its output thrown away."""
    # pip compiles what it installs; a checkout that may not keep what it compiled would compile detlint in each run
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Measurement(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)


def show(measured: dict[str, list[Measurement]]) -> None:
    """Print medians, the fastest run, and each time as a multiple of detlint's cold one."""
    ours = statistics.median(run.wall for run in measured["detlint, cold"])
    print(f"{'':<16} {'runs':>4} {'median':>9} {'best':>9} {'cpu':>9} {'memory':>9} {'/ cold':>10}")
    for name, runs in measured.items():
        wall = statistics.median(run.wall for run in runs)
        cpu = statistics.median(run.cpu for run in runs)
        best = min(run.wall for run in runs)
        peak = max(run.megabytes for run in runs)
        times = f"{wall:>7.2f} s {best:>7.2f} s {cpu:>7.2f} s"
        print(f"{name:<16} {len(runs):>4} {times} {peak:>6.0f} MB {wall / ours:>9.2f}x")


if __name__ == "__main__":
    main()
