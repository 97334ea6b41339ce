"""Run a small model under the auditor, first as a script forgot it (in train mode), then as it should be."""

import torch
import torch.nn as nn

import detlint


class Scorer(nn.Module):
    """Scores rows of features and adds up the scores of each group."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, features, groups):
        scores = self.layers(features).squeeze(1)
        return scores.new_zeros(8).index_add(0, groups, scores)


def sample():
    """Return inputs that are the same every time."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(256, 32, generator=generator), torch.randint(8, (256,), generator=generator)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Scorer()
    print("In train mode:\n")
    print(detlint.audit(model, sample(), runs=2))
    print("\n\nAfter model.eval():\n")
    print(detlint.audit(model.eval(), sample(), runs=2))
