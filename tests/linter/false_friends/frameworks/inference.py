"""torch used as it should be: seeded, in eval mode, deterministic, compared within tolerances."""

import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = F.dropout(self.norm(self.linear(x)), 0.1, training=self.training)
        return self.dropout(F.relu(x))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    outputs = [model(x) for (x,) in loader]
    model.train()
    return torch.cat(outputs)


def train_epoch(model, loader, optimizer):
    model.train()
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def test_model_is_stable():
    model = Model().eval()
    x = torch.zeros(2, 8)
    torch.testing.assert_close(model(x), model(x))
    assert torch.allclose(model(x), model(x), rtol=1e-4)


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    data = TensorDataset(torch.randn(64, 8))
    train_data, test_data = random_split(data, [48, 16], generator=torch.Generator().manual_seed(1))
    loader = DataLoader(train_data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(2))
    model = Model()
    train_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
    print(evaluate(model, DataLoader(test_data, batch_size=8)).median())


if __name__ == "__main__":
    main()
