"""Garbage from memory, inside torch itself: circular padding leaves a part of its result unwritten on the CPU.

https://github.com/pytorch/pytorch/issues/176254. Nothing in this model calls `torch.empty`; the auditor finds the
read all the same, and says that deterministic algorithms only hide it.

Run `python examples/unwritten_memory.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import detlint


class CircularPad(nn.Module):
    """Crops two sides and repeats the image at another one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (-2, 0, 4, -2), mode="circular")


def main() -> None:
    """Run the model in memory of different content."""
    print(detlint.audit(CircularPad(), torch.ones(1, 2, 4, 4), probes=["allocator"]))


if __name__ == "__main__":
    main()
