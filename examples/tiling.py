"""Does a fully convolutional net give the same picture in tiles as in one piece?

"Inference non-deterministic on Windows CPU": an image goes through a fully convolutional model once whole and once in
tiles that overlap by enough, and the results are not the same. Is it the tiling, the padding at its borders, or
something else? Run `python examples/tiling.py`.
"""

from __future__ import annotations

import torch
from torch import nn

import detlint


def upscaler(norm: nn.Module) -> nn.Module:
    """Four times super resolution; with the seed, so that everybody has the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=2),
        norm,
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 48, 3, padding=1),
        nn.PixelShuffle(4),
    ).eval()


def make_model() -> nn.Module:
    """The net as people tile it."""
    return upscaler(nn.BatchNorm2d(16))


def make_sample() -> torch.Tensor:
    """A noisy picture."""
    return torch.rand(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def main() -> None:
    """Ask about the net as it is, without oneDNN, and with a layer for which no overlap is enough."""
    print("As it is:\n")
    print(detlint.audit(make_model(), make_sample(), probes=["tiling"], targets=["cpu"]), "\n")
    print("Without oneDNN:\n")
    torch.backends.mkldnn.enabled = False
    print(detlint.audit(make_model(), make_sample(), probes=["tiling"], targets=["cpu"]), "\n")
    torch.backends.mkldnn.enabled = True
    print("With InstanceNorm in place of BatchNorm:\n")
    print(detlint.audit(upscaler(nn.InstanceNorm2d(16)), make_sample(), probes=["tiling"], targets=["cpu"]))


if __name__ == "__main__":
    main()
