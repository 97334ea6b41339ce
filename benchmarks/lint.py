"""How long does a cold lint take? detlint, ruff with all rules and TorchFix on one tree, side by side in one run.

    python benchmarks/lint.py                  timm 1.0.31, downloaded with pip
    python benchmarks/lint.py PATH             any other tree

Every tool reads the tree once before it is measured, so that none pays for a cold disk. Peak memory is that of
the largest process. TorchFix is installed into a temporary environment.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TREE = "timm==1.0.31"
PEER = "torchfix==0.7.0"


@dataclass(frozen=True)
class Measurement:
    """One run: seconds on the clock, seconds on all processors, peak memory of the largest process."""

    wall: float
    cpu: float
    megabytes: float


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, help=f"what to lint (default: {TREE} from the package index)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each fast tool; TorchFix runs once")
    parser.add_argument("--no-peer", action="store_true", help="leave out TorchFix, which takes a minute")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = arguments.tree or download(TREE, Path(folder))
        python = sys.executable
        tools = {
            "detlint": [python, "-m", "detlint", "check", "--isolated", "--no-cache", "--exit-zero", str(tree)],
            "ruff, all rules": [
                *(python, "-m", "ruff", "check", "--select", "ALL", "--no-cache", "--isolated", "--exit-zero"),
                *("--quiet", str(tree)),
            ],
        }
        files = [path for path in tree.rglob("*.py") if path.is_file()]
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        print(f"{tree.name}: {len(files)} files, {lines:,} lines; {os.cpu_count()} cores")
        measured: dict[str, list[Measurement]] = {name: [] for name in tools}
        for turn in range(arguments.runs + 1):
            for name, command in tools.items():
                taken = measure(command)
                if turn:  # the first turn warms the disk
                    measured[name].append(taken)
        if not arguments.no_peer:
            torchfix = install(PEER, Path(folder) / "peer") / "torchfix"
            measured["TorchFix 0.7"] = [measure([str(torchfix), "--select", "ALL", str(tree)])]
    show(measured)


def download(requirement: str, folder: Path) -> Path:
    """Unpack a wheel from the package index and return the package's folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), requirement]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("*.whl")
    name = requirement.partition("=")[0]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "tree")
    return folder / "tree" / name


def install(requirement: str, folder: Path) -> Path:
    """Install a package into an environment of its own and return the folder of its commands."""
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", requirement], check=True)
    return commands


def measure(command: Sequence[str]) -> Measurement:
    """Run a command to its end, its output thrown away."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Measurement(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)


def show(measured: dict[str, list[Measurement]]) -> None:
    """Print medians, the fastest run, and each tool's time as a multiple of detlint's."""
    ours = statistics.median(run.wall for run in measured["detlint"])
    print(f"{'':<16} {'runs':>4} {'median':>9} {'best':>9} {'cpu':>9} {'memory':>9} {'/ detlint':>10}")
    for name, runs in measured.items():
        wall = statistics.median(run.wall for run in runs)
        cpu = statistics.median(run.cpu for run in runs)
        best = min(run.wall for run in runs)
        peak = max(run.megabytes for run in runs)
        times = f"{wall:>7.2f} s {best:>7.2f} s {cpu:>7.2f} s"
        print(f"{name:<16} {len(runs):>4} {times} {peak:>6.0f} MB {wall / ours:>9.2f}x")


if __name__ == "__main__":
    main()
