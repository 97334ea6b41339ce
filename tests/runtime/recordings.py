"""What is recorded twice and compared: a network, its input, and a training, under one setting or another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

import detlint


class Net(nn.Module):
    def __init__(self, *, eps: float = 1e-5, activation: object = torch.relu) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8, eps=eps)
        self.activation = activation
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.activation(self.norm(self.conv(x)))).mean((2, 3)))  # type: ignore[operator]


def net(seed: int = 0, **options: object) -> Net:
    torch.manual_seed(seed)
    return Net(**options).eval()  # type: ignore[arg-type]


def image(seed: int = 1, size: int = 24) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(seed))


def subjects(comparison: detlint.RecordComparison) -> list[str]:
    return [item.subject for item in comparison.explanations]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def train(
    path: Path, *, order: tuple[int, ...] = (0, 1, 2, 3), rate: float = 0.05, count: int = 2, seed: int = 0
) -> detlint.Record:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 22 * 22, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with threads(count), detlint.Recorder(path, model) as recorder:
        for number in order:
            loss = model(image(number)).square().mean()
            loss.backward()
            optimizer.step()
            recorder.step(model, loss=loss, inputs=image(number))
            optimizer.zero_grad()
    return recorder.record()
