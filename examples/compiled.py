"""Why do the compiled and the plain model differ? Asked again and again of models with convolutions and norms.

PyTorch promises no equal bits here (https://github.com/pytorch/pytorch/issues/159239), so the question is whether it is
rounding, and which operator begins. The second model is compiled by a backend that is wrong on purpose.

Run `python examples/compiled.py`; Inductor needs a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

import detlint


class Net(nn.Module):
    """Convolutions, norms, activations."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU())
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2), nn.GroupNorm(4, 32), nn.GELU())
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.body(self.stem(images))
        return self.head(features.mean(dim=(2, 3)))


def make_model() -> nn.Module:
    """The model as it would be used for inference."""
    torch.manual_seed(0)
    return Net().eval()


def make_sample() -> torch.Tensor:
    """Two images."""
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def broken_backend(graph: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """Run the graph as it is, but for GELU, of which it takes the quick approximation."""
    for node in graph.graph.nodes:
        if node.target is torch.nn.functional.gelu or node.target is torch.ops.aten.gelu.default:
            node.kwargs = {"approximate": "tanh"}
    graph.recompile()
    return graph.forward


def main() -> None:
    """Compare eager with Inductor, then with the backend that is wrong."""
    print(detlint.audit(make_model(), make_sample(), probes=["compile"]), "\n")
    print(detlint.audit(make_model(), make_sample(), probes=["compile"], compile_backend=broken_backend))


if __name__ == "__main__":
    main()
