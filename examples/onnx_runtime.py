"""Does the exported model compute the same? "This test also passes when using ONNX", asked of the auditor.

Needs `pip install "detlint[onnx]"`. Run `python examples/onnx_runtime.py`.
"""

from __future__ import annotations

import torch
from torch import nn

import detlint


def main() -> None:
    """Compare with ONNX Runtime, in eval mode and with dropout left on."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.LazyLinear(10)
    )
    images = torch.randn(2, 3, 32, 32)
    model.eval()(images)
    print(detlint.audit(model, images, probes=["onnx"]), "\n")
    print(detlint.audit(model.train(), images, probes=["onnx"]))


if __name__ == "__main__":
    main()
