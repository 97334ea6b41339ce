"""Why does a batch give other outputs than its samples one by one?

"Resnet50 gives different outputs with respect to batch size",
https://discuss.pytorch.org/t/resnet50-gives-different-outputs-with-respect-to-batch-size/111796:
four images in one batch differ from the same images one at a time; 99 % of the differences are below 3.81e-06.
Is it batch norm, randomness, or rounding?

Run `python examples/batch_size.py`; it needs transformers, for the network, and a minute. Weights are drawn at random,
so the differences have another size than in the question, but the same cause. A number, as in
`python examples/batch_size.py 96`, makes the images smaller.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

import detlint


class Logits(nn.Module):
    """A ResNet-50 that returns a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.net = ResNetForImageClassification(ResNetConfig(num_labels=1000))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.net(images).logits
        return logits


def make_model() -> nn.Module:
    """The model in evaluation mode, as in the question."""
    torch.manual_seed(42069)
    return Logits().eval()


def make_sample(pixels: int = 400) -> torch.Tensor:
    """The images of the question: noise with a standard deviation of 10."""
    return torch.randn((4, 3, pixels, pixels), generator=torch.Generator().manual_seed(42069)) * 10


def main() -> None:
    """Run it twice, then in batches of every size, at other places and with other neighbours."""
    report = detlint.audit(make_model(), make_sample(*map(int, sys.argv[1:])), probes=("repeat", "batch"), runs=2)
    for name in ("repeat", "batch"):
        probe = report.probes[name]
        print(f"{name}: {probe.verdict.value}: {probe.cause or 'nothing depends on it'}")
        for line in probe.evidence:
            print(f"  - {line}")
    batch = report.probes["batch"]
    print(f"greatest difference: {batch.max_abs:.3g}, {batch.max_ulp} ulp, PSNR {batch.psnr or 0:.0f} dB")
    print("percentiles:", ", ".join(f"{percent}: {value:.3g}" for percent, value in batch.percentiles.items()))
    if batch.first_divergence is not None:
        print(f"first operator: {batch.first_divergence.op} in {batch.first_divergence.module}")
    print(f"remedy: {batch.remedy or 'none'}")


if __name__ == "__main__":
    main()
