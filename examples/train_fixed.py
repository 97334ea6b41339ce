"""The program of `train.py`, giving the same result from the same input: detlint finds nothing here."""

import argparse
import os

# cuBLAS reads it when CUDA starts, so it stands above everything that could start it
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split


class Patches(Dataset):
    def __init__(self, folder):
        self.labels = {name: index for index, name in enumerate(sorted(os.listdir(folder)))}
        self.items = [
            (os.path.join(folder, name, file), name)
            for name in self.labels
            for file in sorted(os.listdir(os.path.join(folder, name)))
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, name = self.items[index]
        patch = torch.load(path, weights_only=True)
        if torch.rand(()) < 0.5:
            patch = patch.flip(-1)
        return patch, self.labels[name]


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.dropout(x.mean((2, 3)), 0.5, training=self.training)
        return self.head(x)


@torch.no_grad()
def confusion(model, loader, classes, device):
    matrix = torch.zeros(classes, classes, device=device)
    model.eval()
    for patches, labels in loader:
        predicted = model(patches.to(device)).argmax(1)
        matrix.index_put_((labels.to(device), predicted), torch.ones(len(labels), device=device), accumulate=True)
    return matrix


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Patches(arguments.folder)
    training, testing = random_split(data, [len(data) - len(data) // 5, len(data) // 5])
    model = Classifier(len(data.labels)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(arguments.epochs):
        model.train()
        for patches, labels in DataLoader(training, batch_size=32, shuffle=True):
            loss = F.cross_entropy(model(patches.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, confusion(model, DataLoader(testing, batch_size=32), len(data.labels), device))


if __name__ == "__main__":
    main()
