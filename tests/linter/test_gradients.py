"""Can a gradient flow, and how many dimensions has a tensor? Tables of the code around one marked expression."""

from __future__ import annotations

import ast

import pytest

from detlint.config import ConfigResolver
from detlint.linter.context import Context, FileFacts
from detlint.linter.dimensions import dimensions, names_pixels
from detlint.linter.gradients import can_need_gradient
from detlint.rulebook import load_rules
from tests.linter.conftest import MakeModule

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def marked(code: str, make_module: MakeModule) -> tuple[ast.Call, Context]:
    """Return the call of `op` in the code, with a context."""
    module = make_module(HEAD + code)
    facts = FileFacts(module, ConfigResolver(isolated=True).for_file(module.source.path), with_fixes=False)
    calls = module.index.of_type(ast.Call)
    return next(c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "op"), Context(
        module, load_rules()["DET302"], facts
    )


GRADIENTS = {
    "a feature of a module": ("class A(nn.Module):\n    def forward(self, x):\n        return op(self.f(x))\n", True),
    "an unknown function": ("def fuse(low, high):\n    return op(low) + high\n", True),
    "disabled": ("def f(x):\n    with torch.no_grad():\n        return op(x)\n", False),
    "an evaluating function": ("def evaluate(model, x):\n    return op(model(x))\n", False),
    "labels by name": (
        "class A(nn.Module):\n    def forward(self, x, gt_masks):\n        return op(gt_masks.float())\n",
        False,
    ),
    "detached": ("def fuse(x):\n    y = x.detach()\n    return op(y)\n", False),
    "made of constants": ("def fuse(n):\n    return op(torch.arange(n).float())\n", False),
    "asked to have a gradient": ("def fuse(n):\n    return op(torch.zeros(n, requires_grad=True))\n", True),
    "only compared": ("def fuse(x):\n    y = op(x)\n    return y.sigmoid() > 0.5\n", False),
    "all callers infer": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n    @torch.no_grad()\n"
        "    def sample(self, x):\n        return self._up(x)\n",
        False,
    ),
    "one caller trains": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n    @torch.no_grad()\n"
        "    def sample(self, x):\n        return self._up(x)\n    def forward(self, x):\n        return self._up(x)\n",
        True,
    ),
    "into a given tensor": ("def fuse(x, y):\n    op(x, out=y)\n", False),
    "a beam search": ("class BeamSearch(nn.Module):\n    def step(self, memory):\n        return op(memory)\n", False),
}


@pytest.mark.parametrize(("code", "expected"), GRADIENTS.values(), ids=GRADIENTS.keys())
def test_gradient_can_flow(code: str, expected: bool, make_module: MakeModule) -> None:
    call, ctx = marked(code, make_module)
    assert can_need_gradient(call, call.args[0], ctx) is expected


DIMENSIONS = {
    "unpacked shape": ("def f(x):\n    n, c, h, w = x.shape\n    return op(x)\n", 4),
    "unpacked size": ("def f(x):\n    n, c = x.size()\n    return op(x)\n", 2),
    "reshaped": ("def f(x, n, h, w):\n    return op(x.view(n, h, w))\n", 3),
    "reshaped to something unknown": ("def f(x, shape):\n    return op(x.view(shape))\n", None),
    "permuted and flattened": ("def f(x):\n    return op(x.permute(0, 2, 3, 1).flatten(1))\n", 2),
    "indexed": ("def f(x):\n    y = x.reshape(2, 3, 4, 5)\n    return op(y[:, 0, None, :2])\n", 4),
    "a convolution": ("conv = nn.Conv2d(3, 8, 3)\ndef f(x):\n    return op(conv(x).relu())\n", 4),
    "an upsampled map": ("def f(x):\n    return op(F.interpolate(x, scale_factor=2, mode='bilinear'))\n", 4),
    "summed over a dimension": ("def f(x):\n    return op(x.view(2, 3, 4).sum(1))\n", 2),
    "a parameter": ("def f(x):\n    return op(x)\n", None),
}


@pytest.mark.parametrize(("code", "expected"), DIMENSIONS.values(), ids=DIMENSIONS.keys())
def test_dimensions(code: str, expected: int | None, make_module: MakeModule) -> None:
    call, ctx = marked(code, make_module)
    assert dimensions(call.args[0], ctx) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true_masks", True),
        ("batch['mask'].long()", True),
        ("sample.seg_label", True),
        ("labels", False),
        ("labels[ref_mask]", False),
        ("masked_labels", False),
        ("mask.view(-1)", False),
    ],
)
def test_names_of_pixel_targets(text: str, expected: bool) -> None:
    assert names_pixels(ast.parse(text, mode="eval").body) is expected
