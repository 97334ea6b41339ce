"""Whole image against tiles: nets that round otherwise in a tile, nets that compute otherwise, and nets that cannot."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.options import Tiling
from detlint.runtime.report import Cause, ProbeResult, Verdict


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


X = image(1, 3, 96, 96)


def tiled(model: nn.Module, sample: object = X, tiling: Tiling | None = None) -> ProbeResult:
    torch.manual_seed(0)
    return detlint.audit(model, sample, probes=("tiling",), tiling=tiling).probes["tiling"]


def conv(inputs: int, outputs: int, kernel: int = 3, **options: int) -> nn.Conv2d:
    padding = options.pop("padding", options.get("dilation", 1) * (kernel // 2))
    return nn.Conv2d(inputs, outputs, kernel, padding=padding, **options)


class UNet(nn.Module):
    """Two levels: pooling down, a transposed convolution and an interpolation up."""

    def __init__(self) -> None:
        super().__init__()
        self.top, self.middle, self.bottom = conv(3, 8), conv(8, 16), conv(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.join, self.head = conv(32, 8), conv(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = self.top(x).relu()
        middle = self.middle(F.max_pool2d(top, 2)).relu()
        up = self.up(self.bottom(F.max_pool2d(middle, 2)).relu())
        up = F.interpolate(self.join(torch.cat([up, middle], 1)).relu(), scale_factor=2)
        return self.head(torch.cat([up, top], 1))


class Branches(nn.Module):
    """Dilated convolutions side by side, whose windows have holes; two outputs of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 16, stride=2)
        self.branches = nn.ModuleList(conv(16, 8, dilation=rate) for rate in (1, 3, 6))
        self.head = conv(24, 5, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.stem(x).relu()
        logits = self.head(torch.cat([branch(features) for branch in self.branches], 1))
        return {"logits": F.interpolate(logits, scale_factor=2.0), "features": features}


NETS = {
    "chain": lambda: nn.Sequential(conv(3, 16), nn.ReLU(), conv(16, 16), nn.ReLU(), conv(16, 3)),
    "unet": UNet,
    "super-resolution": lambda: nn.Sequential(conv(3, 16, 5), nn.Tanh(), conv(16, 27), nn.PixelShuffle(3)),
    "dilated": Branches,
    "fractional": lambda: nn.Sequential(conv(3, 16), nn.Upsample(scale_factor=1.5), conv(16, 3)),
    "no-padding": lambda: nn.Sequential(conv(3, 16, padding=0), nn.ReLU(), conv(16, 3, padding=0)),
}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("name", NETS)
def test_onednn_is_found_where_it_is_the_cause(name: str) -> None:
    torch.manual_seed(0)
    model = NETS[name]().eval()
    with torch.backends.mkldnn.flags(enabled=False):
        without = tiled(model)
    assert without.verdict is Verdict.BITWISE, without.evidence
    result = tiled(model)
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING), result.reason
    assert sum("tile of" in line for line in result.evidence) == 4
    if result.verdict is Verdict.BITWISE:
        pytest.skip("oneDNN computes all of these shapes alike on this machine")
    event = result.first_divergence
    assert event is not None
    assert event.name == "aten.convolution"
    assert result.divergence is not None
    assert result.divergence.confirmed
    assert "vanishes without oneDNN" in result.cause
    assert result.remedy == "torch.backends.mkldnn.enabled = False"
    assert any(line.startswith("oneDNN ran convolution") for line in result.evidence)
    assert "the whole model without oneDNN: the same bits in this tile" in result.evidence
    assert 0 < result.max_abs < 1e-5


def test_figures_are_those_of_a_comparison_by_hand() -> None:
    model = NETS["chain"]().eval()
    result = tiled(model)
    overlap = [line for line in result.evidence if "receptive field 7 x 7" in line]
    assert overlap == ["receptive field 7 x 7 pixels: tiles must overlap by 6 x 6"]
    if result.verdict is Verdict.BITWISE:
        pytest.skip("nothing differs on this machine")
    size, _, start = result.change.removeprefix("tile of ").partition(" at ")
    (height, width), (top, left) = (tuple(map(int, text.split(" x "))) for text in (size, start))
    with torch.no_grad():
        whole = model(X)[..., top : top + height, left : left + width]
        part = model(X[..., top : top + height, left : left + width].clone())
    rim = 1 + 3  # poisoned, and half of the receptive field
    window = tuple(
        slice(rim if first else 0, (-rim if first + length < 96 else None))
        for first, length in ((top, height), (left, width))
    )
    gap = (whole[(..., *window)] - part[(..., *window)]).abs()
    assert result.max_abs == float(gap.max())
    assert result.outputs[0].numel == gap.numel()


class Squeeze(nn.Module):
    """Weighs channels by their means."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.pool(x).sigmoid()


class Attention(nn.Module):
    """Every place attends to every other one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        return F.scaled_dot_product_attention(tokens, tokens, tokens).transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize(
    ("layer", "module"),
    [
        pytest.param(nn.InstanceNorm2d(8), "1 (InstanceNorm2d)", id="instance-norm"),
        pytest.param(nn.GroupNorm(2, 8), "1 (GroupNorm)", id="group-norm"),
        pytest.param(Squeeze(), "1.pool (AdaptiveAvgPool2d)", id="squeeze-and-excite"),
        pytest.param(Attention(), "1 (Attention)", id="attention"),
        pytest.param(nn.BatchNorm2d(8).train(), "1 (BatchNorm2d)", id="batch-norm-in-train-mode"),
    ],
)
def test_layers_that_look_everywhere_are_told_from_rounding(layer: nn.Module, module: str) -> None:
    result = tiled(nn.Sequential(conv(3, 8, stride=2), layer, conv(8, 3)), image(1, 3, 64, 64))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.kind is Cause.SHAPE
    assert f"in {module} looks at the whole image" in result.cause
    assert result.divergence is not None
    assert result.divergence.confirmed
    assert result.max_abs > 1e-4


def test_a_grid_laid_over_the_whole_image_is_named() -> None:
    model = nn.Sequential(conv(3, 8), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), conv(8, 3))
    result = tiled(model.eval())
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert result.first_divergence.name == "aten.upsample_bilinear2d"


def test_dropout_left_on_is_randomness() -> None:
    result = tiled(nn.Sequential(conv(3, 8), nn.Dropout(0.5)).train())
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.kind is Cause.RANDOMNESS


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (nn.Sequential(*[conv(3, 3)] * 12), (24, 24), "receptive field of 25 x 25 pixels and a stride of 1 x 1 need"),
        (nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2)), (8, 8), "one size only"),
        (nn.Sequential(conv(3, 3), nn.AdaptiveAvgPool2d(1)), (32, 32), "no output grows"),
    ],
)
def test_what_cannot_be_tiled_is_skipped(model: nn.Module, shape: tuple[int, int], reason: str) -> None:
    result = tiled(model, image(1, 3, *shape))
    assert result.verdict is Verdict.SKIPPED
    assert reason in result.reason


def test_tiles_may_be_given() -> None:
    model = nn.Sequential(conv(3, 8, stride=2), conv(8, 3)).eval()
    result = tiled(model, X, Tiling(min_input_size=24, min_output_size=12, stride=4))
    assert any("tile of 24 x 24 at" in line for line in result.evidence)
    for wrong, reason in [
        (Tiling(stride=3), "every 2 pixels"),
        (Tiling(min_input_size=8), "tiles of"),
        (Tiling(min_input_size=24, min_output_size=24), "gives 12 x 12"),
    ]:
        skipped = tiled(model, X, wrong)
        assert skipped.verdict is Verdict.SKIPPED
        assert reason in skipped.reason


class Chooses(nn.Module):
    """Looks at values, so that it cannot be traced without any."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x / 255 if x.abs().min() > 1 else x)


def test_a_model_that_looks_at_values_needs_the_stride() -> None:
    assert "Tiling(stride=" in tiled(Chooses().eval()).reason
    assert tiled(Chooses().eval(), X, Tiling(stride=1)).verdict in (Verdict.BITWISE, Verdict.ROUNDING)
