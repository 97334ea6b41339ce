"""Does the auditor name planted CPU races, and stay silent without them?

Plants one of four races into random-weight models of transformers and audits them, again and again. A try counts
as right if operator, module path, phase and source line of the first divergence are those of the plant; an audit
without a plant if it is bitwise. Needs at least two CPU threads.

    python benchmarks/planted_races.py --tries 20
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from transformers import BertConfig, BertModel, ResNetConfig, ResNetForImageClassification, ViTConfig, ViTModel

import detlint

UPDATES, ROWS = 1_000_000, 50


def _index_put(rows: torch.Tensor, where: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
    return rows.index_put_((where,), what, accumulate=True)  # planted


def _put(rows: torch.Tensor, where: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
    return rows.put_(where, what, accumulate=True)  # planted


def _gathered(rows: torch.Tensor, where: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
    return rows[where] * what  # planted


@dataclass(frozen=True)
class Race:
    """A race: the code, the operator that races, in which phase, and whether the audit must run backward."""

    name: str
    code: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    operators: tuple[str, ...]
    phase: str

    @property
    def line(self) -> int:
        lines, first = inspect.getsourcelines(self.code)
        return first + next(place for place, line in enumerate(lines) if "# planted" in line)


RACES = (
    Race("index_put_ accumulate", _index_put, ("aten.index_put_.default",), "forward"),
    Race("put_ accumulate", _put, ("aten.put_.default",), "forward"),
    Race("backward of x[idx]", _gathered, ("aten.index_put.default",), "backward"),
)


class Planted(nn.Module):
    """Runs a module, and then a race whose result goes into its output."""

    def __init__(self, inner: nn.Module, race: Race) -> None:
        super().__init__()
        self.inner, self.race = inner, race
        generator = torch.Generator().manual_seed(1)
        self.rows = nn.Parameter(torch.zeros(ROWS))
        self.register_buffer("where", torch.randint(0, ROWS, (UPDATES,), generator=generator))
        self.register_buffer("what", torch.rand(UPDATES, generator=generator))

    def forward(self, *args: object, **kwargs: object) -> object:
        output = self.inner(*args, **kwargs)
        rows = self.rows if self.race.phase == "backward" else torch.zeros(ROWS)
        noise = self.race.code(rows, self.where, self.what).sum() * 1e-3
        if isinstance(output, tuple):
            return (output[0] + noise, *output[1:])
        return output + noise


def bert() -> tuple[nn.Module, dict[str, torch.Tensor], str]:
    model = BertModel(BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4, intermediate_size=256))
    return model, {"input_ids": torch.randint(0, 30000, (2, 32))}, "encoder.layer.1.intermediate"


def vit() -> tuple[nn.Module, dict[str, torch.Tensor], str]:
    config = ViTConfig(num_hidden_layers=2, hidden_size=96, num_attention_heads=3, intermediate_size=192, image_size=64)
    return ViTModel(config), {"pixel_values": torch.randn(2, 3, 64, 64)}, "encoder.layer.0.intermediate"


def resnet() -> tuple[nn.Module, dict[str, torch.Tensor], str]:
    config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], layer_type="basic")
    return ResNetForImageClassification(config), {"pixel_values": torch.randn(2, 3, 64, 64)}, "resnet.encoder.stages.0"


def plant(model: nn.Module, path: str, race: Race) -> None:
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    setattr(owner, name, Planted(model.get_submodule(path), race))


def wrong(report: detlint.AuditReport, race: Race, path: str) -> str:
    """Say what of the answer is wrong; an empty string if it is right."""
    event = report.probes["repeat"].first_divergence
    if event is None:
        return "nothing found"
    facts = {
        "operator": event.op in race.operators,
        "module": event.module == path,
        "phase": event.phase.value == race.phase,
        "line": event.source is not None and (event.source.path, event.source.line) == (__file__, race.line),
    }
    return ", ".join(f"{name} wrong ({event})" for name, right in facts.items() if not right)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--only", default="", help="run only lines that begin so, as in 'vit index'")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {UPDATES} updates of {ROWS} places")
    failed = 0
    for build in (bert, vit, resnet):
        for race in (None, *RACES):
            name = race.name if race else "no plant"
            if not f"{build.__name__} {name}".startswith(options.only):
                continue
            torch.manual_seed(0)
            model, sample, path = build()
            model.eval()
            if race is not None:
                plant(model, path, race)
            right, notes, start = 0, [], time.perf_counter()
            backward = race is None or race.phase == "backward"
            for _ in range(options.tries):
                report = detlint.audit(model, sample, probes=("repeat",), backward=backward)
                if race is None:
                    note = "" if report.probes["repeat"].verdict.value == "bitwise" else "not bitwise"
                else:
                    note = wrong(report, race, path)
                right += not note
                notes += [note] if note else []
            seconds = (time.perf_counter() - start) / options.tries
            print(f"{build.__name__:7} {name:22} {right:3}/{options.tries}  {seconds:5.2f} s", *set(notes), flush=True)
            failed += right != options.tries
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
