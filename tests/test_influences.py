"""The table of influences: valid, about settings that exist, and ordered by what it says."""

from __future__ import annotations

from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from detlint.errors import RuleError
from detlint.influences import Call, load_influences
from detlint.runtime.environment import VARIABLES, Environment
from detlint.runtime.flags import Flags

ENTRY = """
[groups]
sums = ["aten::sum*"]
[[influence]]
settings = ["flags.threads"]
operators = ["sums"]
devices = ["cpu"]
says = "x"
source = "y"
"""


def call(
    operator: str | None, *, device: str = "cpu", dtype: str = "float32", elements: int = 1 << 20, draws: bool = False
) -> Call:
    return Call(operator, frozenset({device}), frozenset({dtype}), elements, draws)


def reaching(call: Call) -> list[str]:
    return [setting for influence in load_influences() if influence.reaches(call) for setting in influence.settings]


def test_every_setting_exists() -> None:
    known = {field.name for field in fields(Environment)} | {f"flags.{field.name}" for field in fields(Flags)}
    for influence in load_influences():
        for setting in influence.settings:
            section, _, name = setting.partition(".")
            if section == "variables":
                assert any(name == variable or fnmatchcase(name, f"{variable}*") for variable in VARIABLES), setting
            else:
                assert setting in known


@pytest.mark.parametrize(
    ("operator", "reached", "not_reached"),
    [
        ("aten::convolution", "flags.mkldnn_enabled", "flags.cudnn_benchmark"),
        ("aten::convolution_backward", "flags.mkldnn_enabled", "variables.MKL_CBWR"),
        ("aten::sum", "flags.threads", "flags.mkldnn_enabled"),
        ("aten::mm", "mkl", "flags.cudnn_enabled"),
        ("aten::relu", "torch", "flags.threads"),
        ("aten::relu_", "torch", "cpu_capability"),
        ("aten::expand", "torch", "cpu_capability"),
        ("aten::logical_and", "torch", "cpu_capability"),
        ("aten::gelu", "flags.mkldnn_enabled", "flags.threads"),
        ("aten::exp", "cpu_capability", "flags.threads"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "cpu_capability", "flags.flash_attention"),
    ],
)
def test_settings_reach_operators_on_the_cpu(operator: str, reached: str, not_reached: str) -> None:
    found = reaching(call(operator))
    assert reached in found
    assert not_reached not in found


def test_conditions_on_device_dtype_size_and_draws() -> None:
    assert "flags.matmul_allow_tf32" in reaching(call("aten::mm", device="cuda"))
    assert "flags.matmul_allow_tf32" not in reaching(call("aten::mm", device="cuda", dtype="float64"))
    assert "flags.mkldnn_enabled" in reaching(call("aten::mm", dtype="bfloat16"))
    assert "flags.mkldnn_enabled" not in reaching(call("aten::mm"))
    assert "flags.threads" not in reaching(call("aten::sum", elements=100))
    assert "cpu_capability" in reaching(call("aten::normal_", draws=True))
    assert "cpu_capability" not in reaching(call("aten::normal_"))
    assert set(reaching(call(None))) >= {"flags.threads", "torch", "flags.mkldnn_enabled"}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('devices = ["cpu"]', 'devices = ["gpu"]', "influence[1].devices: 'gpu' is not one of"),
        ('operators = ["sums"]', 'operators = ["sum"]', "influence[1].operators: 'sum' is not a key of [groups]"),
        ('says = "x"\n', "", "says"),
        ('says = "x"', 'says = "x"\nsay = "z"', "say"),
    ],
)
def test_mistakes_name_file_and_entry(tmp_path: Path, before: str, after: str, message: str) -> None:
    right, path = tmp_path / "right.toml", tmp_path / "influences.toml"
    right.write_text(ENTRY)
    assert len(load_influences(right)) == 1
    assert before in ENTRY
    path.write_text(ENTRY.replace(before, after))
    with pytest.raises(RuleError) as caught:
        load_influences(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
