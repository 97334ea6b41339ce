"""The geometry of models, measured by poisoning, against closed forms."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import nn

from detlint.runtime.guard import Guard
from detlint.runtime.images import Images, Unfit, find_images
from detlint.runtime.passes import Case, Runner
from detlint.runtime.receptive import Field, Geometry, measure
from detlint.runtime.sample import as_sample
from detlint.runtime.targets import modules_of


def case_of(model: nn.Module, shape: tuple[int, ...]) -> Case:
    generator = torch.Generator().manual_seed(0)
    return Case(model.eval(), modules_of(model), as_sample(torch.randn(shape, generator=generator)))


def geometry_of(model: nn.Module, *shape: int) -> Geometry:
    case = case_of(model, shape or (1, 3, 48, 64))
    with Guard(case.modules) as guard:
        runner = Runner(guard)
        return measure(runner, Field(runner, find_images(case), case))


def conv(kernel: int, stride: int = 1, dilation: int = 1, *, padded: bool = True) -> nn.Conv2d:
    padding = dilation * (kernel // 2) if padded else 0
    return nn.Conv2d(3, 3, kernel, stride, padding, dilation)


def closed_form(layers: nn.Sequential) -> tuple[int, int]:
    """Receptive field and stride of a chain of convolutions and poolings."""
    field = stride = 1
    for layer in layers:
        kernel, step, dilation = (
            value if isinstance(value, int) else value[0]
            for value in (layer.kernel_size, layer.stride, getattr(layer, "dilation", 1))
        )
        field += (kernel - 1) * dilation * stride
        stride *= step
    return field, stride


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param([conv(3)] * 5, id="five-of-three"),
        pytest.param([conv(3, padded=False)] * 5, id="no-padding"),
        pytest.param([conv(1)], id="pointwise"),
        pytest.param([conv(5), conv(3, dilation=2), conv(3, dilation=4)], id="dilated"),
        pytest.param([conv(3, stride=2)] * 3, id="strided"),
        pytest.param([nn.Conv2d(3, 3, 4, 2, 1), conv(3)], id="even-kernel"),
        pytest.param([conv(1, stride=2)], id="pixels-nobody-reads"),
        pytest.param([conv(3), nn.MaxPool2d(2), conv(3), nn.AvgPool2d(3, 3)], id="pooled"),
        pytest.param([conv(7, stride=2), nn.MaxPool2d(3, 2, 1), conv(3, stride=2)], id="stem"),
    ],
)
def test_chains_agree_with_the_closed_form(layers: list[nn.Module]) -> None:
    field, stride = closed_form(nn.Sequential(*layers))
    geometry = geometry_of(nn.Sequential(*layers))
    assert geometry.stride == (stride, stride)
    assert geometry.receptive_field == (field, field)
    assert geometry.exact
    assert geometry.everywhere is None
    assert geometry.outputs["output"].scale == (Fraction(1, stride),) * 2
    assert all(field - stride <= overlap < field + stride for overlap in geometry.overlap)


def test_each_dimension_has_its_own() -> None:
    geometry = geometry_of(nn.Conv2d(3, 3, (3, 7), (1, 4), (1, 3)))
    assert geometry.stride == (1, 4)
    assert geometry.receptive_field == (3, 7)
    assert geometry_of(nn.Conv1d(3, 3, 9, padding=4), 2, 3, 50).receptive_field == (9,)
    assert geometry_of(nn.Conv3d(3, 3, 3, padding=1), 1, 3, 9, 10, 11).receptive_field == (3, 3, 3)


def test_a_long_stride_gives_a_bound() -> None:
    layers = nn.Sequential(*[conv(3, stride=2)] * 4, conv(3))
    field, stride = closed_form(layers)
    geometry = geometry_of(layers, 1, 3, 96, 128)
    assert geometry.stride == (stride, stride) == (16, 16)
    assert not geometry.exact
    assert all(field <= bound <= field + stride for bound in geometry.receptive_field)


@pytest.mark.parametrize(
    ("model", "scale", "stride", "field"),
    [
        pytest.param(nn.Sequential(conv(5), nn.Conv2d(3, 27, 3, padding=1), nn.PixelShuffle(3)), 3, 1, 7, id="x3"),
        pytest.param(nn.Sequential(conv(3), nn.Conv2d(3, 48, 3, padding=1), nn.PixelShuffle(4)), 4, 1, 5, id="x4"),
        pytest.param(nn.Sequential(conv(3), nn.Upsample(scale_factor=1.5)), Fraction(3, 2), 2, 3, id="x1.5"),
        pytest.param(nn.Sequential(conv(3), nn.ConvTranspose2d(3, 3, 2, 2)), 2, 1, 3, id="transposed"),
        pytest.param(
            nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 3, 3, padding=1)), Fraction(1, 2), 2, 6, id="/2"
        ),
    ],
)
def test_outputs_of_another_size(model: nn.Module, scale: Fraction, stride: int, field: int) -> None:
    geometry = geometry_of(model)
    assert geometry.outputs["output"].scale == (scale, scale)
    assert geometry.stride == (stride, stride)
    assert geometry.receptive_field == (field, field)


class Swallows(nn.Module):
    """Holds nothing that passes NaN on by itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, torch.zeros_like(x)).nan_to_num()


def test_operators_that_drop_nan_are_seen_through() -> None:
    assert geometry_of(nn.Sequential(conv(3), Swallows(), conv(3))).receptive_field == (5, 5)


def test_padding_counts_as_no_part_of_the_image() -> None:
    model = nn.Sequential(nn.ZeroPad2d(1), conv(3, padded=False), nn.ReflectionPad2d(1), conv(3, padded=False))
    geometry = geometry_of(model)
    assert (geometry.overlap, geometry.receptive_field) == ((4, 4), (5, 5))


class Squeeze(nn.Module):
    """Weighs channels by their means."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.mean((2, 3), keepdim=True).sigmoid()


class Attention(nn.Module):
    """Every place attends to every other one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        weights = (tokens @ tokens.transpose(1, 2)).softmax(-1)
        return (weights @ tokens).transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        pytest.param(nn.InstanceNorm2d(3), "aten.native_batch_norm", id="instance-norm"),
        pytest.param(nn.GroupNorm(1, 3), "aten.native_group_norm", id="group-norm"),
        pytest.param(Squeeze(), "aten.mean", id="squeeze-and-excite"),
        pytest.param(Attention(), "aten._softmax", id="attention"),
    ],
)
def test_operators_that_look_everywhere_are_named(layer: nn.Module, op: str) -> None:
    event = geometry_of(nn.Sequential(conv(3), layer, conv(3)), 1, 3, 24, 32).everywhere
    assert event is not None
    assert (event.name, event.module) == (op, "1")


def test_a_small_image_is_no_global_operator() -> None:
    """One place looks at more than the image: that is told from an operator that looks at any image whole."""
    geometry = geometry_of(nn.Sequential(*[conv(3)] * 8), 1, 3, 12, 12)
    assert geometry.everywhere is None
    assert geometry.receptive_field == (17, 17)


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2)), (1, 3, 8, 8), "one size only"),
        (nn.Sequential(conv(3), nn.AdaptiveAvgPool2d(1)), (1, 3, 16, 16), "no output grows"),
        (nn.Linear(4, 4), (2, 4), "no image"),
    ],
)
def test_what_cannot_be_tiled_says_why(model: nn.Module, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        geometry_of(model, *shape)


def test_a_stride_beside_the_grid_is_refused() -> None:
    case = case_of(conv(3, stride=4), (1, 3, 32, 32))
    assert find_images(case, stride=8) == Images((2, 3), (32, 32), (8, 8))
    with pytest.raises(Unfit, match="every 4 pixels"):
        find_images(case, stride=6)
