"""A race on the CPU, found and named, and gone under detlint.deterministic().

Run `python examples/audit_small_model.py`, or from this folder:

    detlint audit audit_small_model:make_model --sample audit_small_model:make_sample
"""

from __future__ import annotations

import torch
from torch import nn

import detlint


class Histogram(nn.Module):
    """Adds up the weights of the items that fall into each bin."""

    def __init__(self, bins: int) -> None:
        super().__init__()
        self.bins = bins

    def forward(self, weights: torch.Tensor, bins: torch.Tensor) -> torch.Tensor:
        totals = weights.new_zeros(self.bins)
        return totals.index_put_((bins,), weights, accumulate=True)


class Scorer(nn.Module):
    """Weighs every item and scores the histogram of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.histogram = Histogram(bins=64)
        self.score = nn.Linear(64, 4)

    def forward(self, items: torch.Tensor, bins: torch.Tensor) -> torch.Tensor:
        weights = self.weigh(items).squeeze(-1)
        return self.score(self.histogram(weights, bins))


def make_model() -> nn.Module:
    """The model as it would be used for inference."""
    torch.manual_seed(0)
    return Scorer().eval()


def make_sample() -> tuple[torch.Tensor, torch.Tensor]:
    """200,000 items; small inputs run on one thread and never race."""
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(200_000, 8, generator=generator)
    return items, torch.randint(0, 64, (200_000,), generator=generator)


def main() -> None:
    """Audit the model as it is, then under detlint.deterministic()."""
    print(detlint.audit(make_model(), make_sample(), runs=10), "\n")
    with detlint.deterministic(seed=0):
        print(detlint.audit(make_model(), make_sample(), runs=10))


if __name__ == "__main__":
    main()
