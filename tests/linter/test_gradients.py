"""Can a gradient flow, and how many dimensions has a tensor? Tables of the code around one marked expression."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.analysis.context import Context, FileFacts
from detlint.linter.gradients.flow import can_need_gradient
from detlint.linter.indices.dimensions import dimensions, names_pixels
from detlint.linter.indices.single_elements import SingleElements
from detlint.rulebook import load_rules
from tests.linter.conftest import MakeModule

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def marked(code: str, make_module: MakeModule, files: dict[str, str] | None = None) -> tuple[ast.Call, Context]:
    """Return the call of `op` in the code, with a context."""
    module = make_module(HEAD + code, files)
    facts = FileFacts(module, ConfigResolver(isolated=True).for_file(module.source.path), with_fixes=False)
    calls = module.index.of_type(ast.Call)
    return next(c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "op"), Context(
        module, load_rules()["DET302"], facts
    )


GRADIENTS = {
    "a feature of a module": ("class A(nn.Module):\n    def forward(self, x):\n        return op(self.f(x))\n", True),
    "an unknown function": ("def fuse(low, high):\n    return op(low) + high\n", True),
    "disabled": ("def f(x):\n    with torch.no_grad():\n        return op(x)\n", False),
    "disabled by a mode": ("def f(x):\n    with torch.inference_mode(True):\n        return op(x)\n", False),
    "disabled but in training": (
        "class A(nn.Module):\n    def forward(self, x):\n        with torch.inference_mode(not self.training):\n"
        "            return op(x)\n",
        True,
    ),
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
    "more calls than are followed, all of them of data": (
        "def extract(a, t):\n    return op(a)\n"
        "class A(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.register_buffer('betas', torch.linspace(0, 1, n))\n"
        "    def forward(self, t):\n        return " + " + ".join(["extract(self.betas, t)"] * 20) + "\n",
        False,
    ),
    "a derivative written by hand": ("def add_backward(grad):\n    return op(grad)\n", False),
    "a step of training": ("def forward_backward(model, x):\n    op(model(x)).backward()\n", True),
    "into a given tensor": ("def fuse(x, y):\n    op(x, out=y)\n", False),
    "what a filter keeps of the features": ("def f(x, m):\n    return op(torch.where(m, x, 0))\n", True),
    "a layer's output for data": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 8, 3)\n"
        "    def forward(self, x):\n        return op(self.conv(x))\n",
        True,
    ),
    "arithmetic on integers and constants": (
        "def f(x, n):\n    rows = torch.arange(n) * 2\n    return op(F.pad(rows, (1, 0)) / n)\n",
        False,
    ),
    "positions put together": (
        "def f(x, y, n):\n    indices_x, indices_y = map(lambda t: t, (x, y))\n"
        "    all_indices = einops.rearrange(indices_x, 'b k -> b k 1') * n + indices_y\n    return op(all_indices)\n",
        False,
    ),
    "written into": ("def f(x, n):\n    y = torch.zeros(n)\n    y[0] = x\n    return op(y)\n", True),
    "written into in place": ("def f(x, n):\n    y = torch.zeros(n)\n    y[:3].add_(x)\n    return op(y)\n", True),
    "filled with data": ("def f(labels, n):\n    y = torch.zeros(n)\n    y[0] = labels\n    return op(y)\n", False),
    "added to in a loop": (
        "def f(parts, n):\n    y = torch.zeros(n)\n    for part in parts:\n        y += part\n    return op(y)\n",
        True,
    ),
    "a helper of constants": (
        "def grid(n, device):\n    return torch.arange(n, device=device).float()\n"
        "def f(x, n):\n    return op(grid(n, x.device))\n",
        False,
    ),
    "a helper that makes a parameter": (
        "def table(n):\n    return nn.Parameter(torch.zeros(n))\ndef f():\n    return op(table(3))\n",
        True,
    ),
    "a parameter of the class": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table = nn.Parameter(torch.zeros(3))\n    def forward(self, x):\n        return op(self.table)\n",
        True,
    ),
    "a plain tensor of the class": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table = torch.zeros(3)\n    def forward(self, x):\n        return op(self.table)\n",
        False,
    ),
    "data from the only caller": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n"
        "    def forward(self, x, labels):\n        return self._up(labels)\n",
        False,
    ),
    "features from one of two callers": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n"
        "    def forward(self, x, labels):\n        return self._up(labels) + self._up(x)\n",
        True,
    ),
    "features from the other caller, without gradients": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n    def forward(self, x, labels):\n"
        "        with torch.no_grad():\n            y = self._up(x)\n        return self._up(labels) + y\n",
        False,
    ),
    "a gradient that was computed": ("def f(x):\n    x.sum().backward()\n    return op(x.grad.abs())\n", False),
    "what a model that is loaded by itself is given": (
        "import transformers\nclass A(transformers.PreTrainedModel):\n    def forward(self, depth, x):\n"
        "        return op(depth)\n",
        False,
    ),
    "what it is told beside that": (
        "import diffusers\nclass A(diffusers.ModelMixin):\n    def forward(self, sample, effnet):\n"
        "        return op(effnet)\n",
        False,
    ),
    "what another model hands over beside that": (
        "import diffusers\nclass A(diffusers.ModelMixin):\n    def forward(self, sample, control_residuals):\n"
        "        return op(control_residuals)\n",
        True,
    ),
    "latents beside that": (
        "import diffusers\nclass A(diffusers.ModelMixin):\n    def forward(self, sample, history_latents):\n"
        "        return op(history_latents)\n",
        False,
    ),
    "what another model computed": (
        "import transformers\nclass A(transformers.PreTrainedModel):\n    def forward(self, hidden_states):\n"
        "        return op(hidden_states)\n",
        True,
    ),
    "what a model inside another one is given": (
        "import transformers\nclass A(transformers.PreTrainedModel):\n    def forward(self, depth, x):\n"
        "        return op(depth)\n"
        "class B(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.a = A(config)\n",
        True,
    ),
    "handed on as a value": (
        "class A(nn.Module):\n    def _up(self, x):\n        return op(x)\n"
        "    def forward(self, x, labels):\n"
        "        return self._up(labels) + torch.utils.checkpoint.checkpoint(self._up, x)\n",
        True,
    ),
    "images that a network normalises": (
        "import torchvision\nclass A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.norm = torchvision.transforms.Normalize([0.5], [0.5])\n"
        "    def forward(self, x):\n        return self.norm(op(x))\n",
        False,
    ),
    "inside a derivative": (
        "class A(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, grad):\n        return op(grad)\n",
        False,
    ),
    "a beam search": ("class BeamSearch(nn.Module):\n    def step(self, memory):\n        return op(memory)\n", False),
}


@pytest.mark.parametrize(("code", "expected"), GRADIENTS.values(), ids=GRADIENTS.keys())
def test_gradient_can_flow(code: str, expected: bool, make_module: MakeModule) -> None:
    call, ctx = marked(code, make_module)
    assert can_need_gradient(call, call.args[0], ctx) is expected


CALLERS = {
    "under no_grad": ("from main import up\ndef load(x):\n    with torch.no_grad():\n        return up(x)\n", False),
    "in a model": (
        "from main import up\nclass A(torch.nn.Module):\n    def forward(self, x):\n        return up(x)\n",
        True,
    ),
    "in a data set": (
        "import main\nclass A(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
        "        return main.up(self.x[i])\n",
        False,
    ),
    "of another function of that name": ("from torch import up\ndef f(x):\n    return up(x)\n", True),
    "given to somebody": ("from main import up\ndef f(model):\n    return model.apply(up)\n", False),
}


@pytest.mark.parametrize(("caller", "expected"), CALLERS.values(), ids=CALLERS.keys())
def test_callers_in_other_files_count(caller: str, expected: bool, tmp_path: Path, make_module: MakeModule) -> None:
    (tmp_path / "other.py").write_text("import torch\n" + caller)
    call, ctx = marked("def up(x):\n    return op(x)\n", make_module)
    assert can_need_gradient(call, call.args[0], ctx) is expected


def test_a_caller_in_an_environment_does_not_count(tmp_path: Path, make_module: MakeModule) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text(f"import torch\n{CALLERS['under no_grad'][0]}")
    call, ctx = marked("def up(x):\n    return op(x)\n", make_module)
    assert can_need_gradient(call, call.args[0], ctx)


RUNS = """
def load(path):
    model.load_state_dict(path)
    model.eval()
    with torch.no_grad():
        return model()
"""
PROJECTS = {
    "runs trained models": ({"run.py": RUNS}, False),
    "trains them too": ({"run.py": RUNS, "fit.py": "def fit(out):\n    out.backward()\n"}, True),
    "has losses": ({"run.py": RUNS, "losses.py": "def l1_loss(loss):\n    return loss\n"}, True),
    "holds two loops of inference, and comments on losses": (
        {"run.py": RUNS, "show.py": RUNS} | {f"{name}.py": "# the loss of a step\n" for name in "abc"},
        False,
    ),
    "holds two loops of inference, and losses": (
        {"run.py": RUNS, "show.py": RUNS} | {f"{name}.py": "def step(loss):\n    return loss\n" for name in "abc"},
        True,
    ),
    "loads no weights": ({"run.py": RUNS.replace("model.load_state_dict(path)", "pass")}, True),
    "a collection of models": ({}, True),
}


@pytest.mark.parametrize(("files", "expected"), PROJECTS.values(), ids=PROJECTS.keys())
def test_a_project_that_only_runs_models_asks_for_no_gradient(
    files: dict[str, str], expected: bool, make_module: MakeModule
) -> None:
    make_module("", files)
    call, ctx = marked(GRADIENTS["a feature of a module"][0], make_module)
    assert can_need_gradient(call, call.args[0], ctx) is expected


ROWS = {
    "inserted at the end": ("op(x, i.unsqueeze(-1))", -1, True),
    "inserted in front": ("op(x, i.unsqueeze(-1))", 1, True),
    "class numbers beside scores": ("op(x, i.unsqueeze(1))", -1, True),
    "inserted elsewhere": ("op(x, i.unsqueeze(0))", -1, False),
    "two inserted, the last expanded": ("op(x, i.unsqueeze(-1).unsqueeze(-1).expand(-1, -1, n))", -2, True),
    "expanded along the way": ("op(x, i.unsqueeze(-1).unsqueeze(-1).expand(-1, n, -1))", -2, False),
    "named with one": ("op(x, i.expand(n, 1, n))", 1, True),
    "a rest left alone": ("op(x, i.unsqueeze(-1).unsqueeze(-1).expand((-1,) * 2 + (n,)))", -2, True),
    "inserted by None": ("op(x, i[:, None, None].expand(-1, -1, n))", -2, True),
    "inserted elsewhere by None": ("op(x, i[:, None, :])", -1, False),
    "a slice of one": ("op(x, torch.zeros_like(x[..., :1, :]))", -2, True),
    "a slice of two": ("op(x, torch.zeros_like(x[..., :2, :]))", -2, False),
    "repeated": ("op(x, i.unsqueeze(-1).repeat(1, n))", -1, False),
    "rearranged": ("op(x, einops.rearrange(i, 'b n -> b n 1'))", -1, True),
    "rearranged elsewhere": ("op(x, einops.rearrange(i, 'b n -> b 1 n'))", -1, False),
    "rearranged from the end": ("op(x, einops.rearrange(i, '... n -> ... n 1'))", -1, True),
    "rearranged, counted from the front": ("op(x, einops.rearrange(i, '... n -> ... 1 n'))", 1, False),
    "halved": ("op(x, i.unsqueeze(-1) // 2)", -1, True),
    "as it came": ("op(x, i)", -1, False),
}


@pytest.mark.parametrize(("code", "dim", "expected"), ROWS.values(), ids=ROWS.keys())
def test_one_element_a_row(code: str, dim: int, expected: bool, make_module: MakeModule) -> None:
    call, ctx = marked(f"import einops\ndef f(x, i, n):\n    return {code}\n", make_module)
    number = ast.Constant(dim) if dim >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-dim))
    assert SingleElements(number, dim, ctx).of(call.args[1]) is expected


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
    "two of three swapped": ("def f(x):\n    return op(x.transpose(1, 2))\n", 3),
    "counted from the end": ("def f(x):\n    return op(x.transpose(-1, -2))\n", None),
    "rearranged": ("import einops\ndef f(x):\n    return op(einops.rearrange(x, 'b n (h d) -> (b h) n d'))\n", 3),
    "rearranged in part": ("import einops\ndef f(x):\n    return op(einops.rearrange(x, '... d -> d ...'))\n", None),
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
def test_names_of_pixel_targets(text: str, expected: bool, make_module: MakeModule) -> None:
    call, ctx = marked(f"op({text})\n", make_module)
    assert names_pixels(call.args[0], ctx) is expected


@pytest.mark.parametrize(("caller", "expected"), [("post_process_masks", False), ("mix", True)])
def test_a_helper_whose_name_too_many_files_hold(caller: str, expected: bool, make_module: MakeModule) -> None:
    """What calls it in its own file tells whether masks that a model computed are resized behind the model."""
    code = (
        f"class Masks:\n    def {caller}(self, out):\n        return segments_of(out.sigmoid())\n\n"
        "def segments_of(masks):\n    masks = op(masks.unsqueeze(0))\n    return masks * masks.sum()\n"
    )
    others = {f"other{i}.py": "def segments_of(masks):\n    return masks\n" for i in range(20)}
    call, ctx = marked(code, make_module, others)
    assert can_need_gradient(call, call.args[0], ctx) is expected


def test_a_function_inside_another_is_called_by_nobody_else(make_module: MakeModule) -> None:
    code = (
        "import torch\n\ndef kernel(size):\n    def resize(x):\n        return op(x)\n\n"
        "    return resize(torch.zeros(size))\n"
    )
    others = {f"other{i}.py": "def resize(x):\n    return x\n" for i in range(20)}
    call, ctx = marked(code, make_module, others)
    assert not can_need_gradient(call, call.args[0], ctx)
