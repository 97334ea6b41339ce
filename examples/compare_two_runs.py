"""Two runs of one model that do not agree: which operator departs first, and what could explain it?

Here the second run stands for another machine: oneDNN is off, so convolutions are computed by torch itself. Then a
model whose weights were loaded wrongly, and a training that met its batches in another order.

Run `python examples/compare_two_runs.py`, or from this folder, on two machines:

    detlint record compare_two_runs:make_model --sample compare_two_runs:make_sample -o here.detlint
    detlint compare here.detlint there.detlint
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import detlint


class Classifier(nn.Module):
    """A small network of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images).mean((2, 3)))


def make_model() -> nn.Module:
    """The same weights wherever it runs."""
    torch.manual_seed(0)
    return Classifier().eval()


def make_sample(seed: int = 0) -> torch.Tensor:
    """Four images."""
    return torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def train(path: Path, order: tuple[int, ...]) -> None:
    """Train on batches in this order, and record every step."""
    model = make_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with detlint.Recorder(path, model) as recorder:
        for number in order:
            batch = make_sample(number)
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            recorder.step(model, loss=loss, inputs=batch)
            optimizer.zero_grad()


def main() -> None:
    """Make the records and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        here = detlint.record(make_model(), make_sample(), Path(folder, "here.detlint"))
        with torch.backends.mkldnn.flags(enabled=False):
            there = detlint.record(make_model(), make_sample(), Path(folder, "there.detlint"))
        print(detlint.compare(here, there), "\n")

        model = make_model()
        with torch.no_grad():
            model.head.bias.zero_()
        print(detlint.compare(here, detlint.record(model, make_sample())), "\n")

        train(Path(folder, "a.detlint"), order=(0, 1, 2, 3))
        train(Path(folder, "b.detlint"), order=(0, 1, 3, 2))
        found = detlint.compare(Path(folder, "a.detlint"), Path(folder, "b.detlint"))
        print(found.to_text().replace(f"{folder}/", ""))


if __name__ == "__main__":
    main()
