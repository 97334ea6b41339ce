"""Models that differ in one known way or not at all, for audits from end to end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import detlint

X = torch.arange(32.0).reshape(4, 8) / 7

needs_threads = pytest.mark.skipif(torch.get_num_threads() < 2, reason="races need two CPU threads")


def audited(model: Callable[..., object], sample: object = X, *probes: str, **options: Any) -> detlint.AuditReport:
    return detlint.audit(model, sample, probes=probes or ("repeat",), **options)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


class Race(nn.Module):
    """Adds a million floats into fifty places, from several threads."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("where", torch.randint(0, 50, (1_000_000,), generator=generator))
        self.register_buffer("what", torch.rand(1_000_000, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.zeros(50)
        rows.index_put_((self.where,), self.what, accumulate=True)
        return x + rows.sum() / 1e6


def unseen_numbers(seed: int) -> Iterator[float]:
    """Other numbers in each run: where a generator of Python's stands is seen by nobody, and put back by nobody."""
    source = random.Random(seed)
    while True:
        yield source.random()


class OwnRandom(nn.Module):
    """Reads numbers that nothing seeds or puts back."""

    source = unseen_numbers(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([next(OwnRandom.source)])


def exact_linear(size: int) -> nn.Linear:
    """A layer of small whole numbers: whole inputs give sums that are exact, in whatever order a CPU adds them up."""
    linear = nn.Linear(size, size)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.copy_(torch.arange(parameter.numel()).reshape_as(parameter) % 7 - 3)
    return linear
