"""What do detlint and pytest-torch say of the same models? Prints a table in Markdown, real output on both sides.

pip install pytest-torch==1.1.1
python benchmarks/audit_peers.py
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from planted_races import RACES, bert, plant, resnet, vit
from pytest_torch.divergence import localize_divergence
from pytest_torch.nondeterminism import diagnose_nondeterminism
from torch import nn

import detlint
from detlint.runtime.report import Verdict

RUNS = 10


@dataclass(frozen=True)
class Case:
    """A model, its input, and what is wrong with it."""

    truth: str
    build: Callable[[], tuple[nn.Module, object]]
    backward: bool = False


def planted(make: Callable[[], tuple[nn.Module, dict[str, torch.Tensor], str]], race: int) -> Case:
    def build() -> tuple[nn.Module, object]:
        model, sample, path = make()
        plant(model, path, RACES[race])
        return model.eval(), sample

    _, _, path = make()
    return Case(f"{make.__name__}: {RACES[race].name} in {path}", build, RACES[race].phase == "backward")


def clean(make: Callable[[], tuple[nn.Module, dict[str, torch.Tensor], str]]) -> Case:
    return Case(f"{make.__name__}: nothing planted", lambda: (make()[0].eval(), make()[1]))


class Unwritten(nn.Module):
    """Writes half of a buffer and reads all of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        buffer = torch.empty(2 * x.numel())
        buffer[: x.numel()] = x.flatten()
        return buffer.view(2, -1).sum(0)


class Dropped(nn.Module):
    """Drops in eval mode too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5)


class Jittered(nn.Module):
    """Draws from a generator that is not torch's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1 + 1e-3 * random.random())  # detlint: ignore[DET101] what the auditors have to find


class Counting(nn.Module):
    """Keeps state between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x / self.calls


class SignFlip(nn.Module):
    """Gives 0.0 or -0.0, which are equal as numbers and not as bits, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.signs = iter([1.0, -1.0] * 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x) * next(self.signs)


def block(layer: nn.Module) -> Callable[[], tuple[nn.Module, object]]:
    return lambda: (nn.Sequential(nn.Linear(64, 64), layer, nn.ReLU()).eval(), torch.ones(64, 64))


CASES = (
    *(planted(make, race) for make in (bert, vit, resnet) for race in (0, 1, 2)),
    *(clean(make) for make in (bert, vit, resnet)),
    Case("reads half of a torch.empty buffer unwritten (layer 1)", block(Unwritten())),
    Case("F.dropout in eval mode (layer 1)", block(Dropped())),
    Case("random.random() in forward (layer 1)", block(Jittered())),
    Case("state kept between calls (layer 1)", block(Counting())),
    Case("0.0 and -0.0 in turn (layer 1)", block(SignFlip())),
)


def peer(model: nn.Module, sample: object) -> tuple[str, str]:
    """Its verdict, and the first layer that it finds to differ between two copies, at tolerance 0."""
    verdict = diagnose_nondeterminism(copy.deepcopy(model), sample, runs=RUNS).verdict
    verdict = verdict.partition(" (e.g.")[0].partition(". ")[0].rstrip(".")
    divergence = localize_divergence(model, copy.deepcopy(model), sample, rtol=0, atol=0)
    first = divergence.first
    return verdict, "none" if first is None else f"`{first.name}`"


def ours(model: nn.Module, sample: object, *, backward: bool) -> tuple[str, str]:
    report = detlint.audit(model, sample, runs=RUNS, backward=backward, probes=("repeat", "mode", "history"))
    findings = [f for f in report.findings if f.code.startswith(("DET7", "DET2")) or f.code == "DET303"]
    named = "; ".join(
        f"`{finding.op}` in `{finding.module or 'the model'}`, "
        f"{Path(finding.location.path).name}:{finding.location.line}: {finding.message}"
        for finding in findings
    )
    verdicts = [
        f"{name}: {result.verdict.value}"
        for name, result in report.probes.items()
        if result.verdict.rank > Verdict.SKIPPED.rank
    ]
    return ", ".join(verdicts) or "bitwise", named or "nothing to report"


def main() -> None:
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {RUNS} runs each; "
        f"detlint {detlint.__version__}, pytest-torch {version('pytest-torch')}\n"
    )
    print("| what is wrong | pytest-torch: verdict | its first differing layer | detlint: verdict | what it names |")
    print("|---|---|---|---|---|")
    for case in CASES:
        torch.manual_seed(0)
        model, sample = case.build()
        try:
            verdict, layer = peer(copy.deepcopy(model), sample)
        except Exception as error:  # whatever it raises is its answer
            verdict, layer = f"raised {type(error).__name__}: {error}".splitlines()[0], "-"
        bits, named = ours(model, sample, backward=case.backward)
        print(f"| {case.truth} | {verdict} | {layer} | {bits} | {named} |".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
