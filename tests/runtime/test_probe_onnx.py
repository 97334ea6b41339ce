"""ONNX Runtime against torch."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.flags import read_flags
from detlint.runtime.report import ProbeResult

needs_exporter = pytest.mark.skipif(
    "optimize" not in inspect.signature(torch.onnx.export).parameters, reason="torch 2.6 brought the exporter"
)


def probed(model: object, sample: object) -> ProbeResult:
    return detlint.audit(model, sample, probes=["onnx"]).probes["onnx"]  # type: ignore[arg-type]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.body(x)
        return {"scores": self.head(features.mean((2, 3))), "features": features}


@needs_exporter
def test_other_kernels_round_otherwise_by_what_onnx_runtime_gives() -> None:
    import onnxruntime

    model, x = Net().eval(), torch.randn(2, 3, 32, 32)
    result = probed(model, x)
    assert result.verdict.value == "rounding"
    assert result.first_divergence is not None
    assert result.first_divergence.module == "body.0"
    for thing in ("ONNX Runtime's graph optimisations", "ONNX Runtime's several threads", "torch's oneDNN"):
        assert any(line.startswith(f"without {thing}: ") for line in result.evidence), thing

    program = torch.onnx.export(model, (x,), dynamo=True, optimize=False, verbose=False)  # independent of the probe
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    scores, features = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        ours = model(x)
    gaps = {"scores": ours["scores"].numpy() - scores, "features": ours["features"].numpy() - features}
    assert {difference.name for difference in result.outputs} == {name for name, gap in gaps.items() if gap.any()}
    for difference in result.outputs:
        assert difference.max_abs == pytest.approx(abs(gaps[difference.name]).max(), rel=1e-6)


@needs_exporter
def test_dropout_left_on_is_beyond_rounding_and_the_model_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 4)).train()
    x = torch.randn(8, 16)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    flags, random = read_flags(), torch.get_rng_state()
    result = probed(model, x)
    assert model.training
    assert read_flags() == flags
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert result.verdict.value == "beyond-rounding"
    assert result.first_divergence is not None
    assert "dropout" in result.first_divergence.op
    assert result.first_divergence.module == "1"
    assert result.evidence[-1].startswith("after model.eval(): ")
    assert result.remedy == "call model.eval()"


@needs_exporter
def test_exact_operators_agree_to_the_bit() -> None:
    assert probed(nn.Sequential(nn.ReLU(), nn.Flatten()), torch.randn(2, 3, 4)).verdict.value == "bitwise"


@needs_exporter
def test_what_cannot_be_exported_is_skipped_with_the_reason() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else x * 2

    result = probed(Branch(), torch.randn(2, 3))
    assert result.verdict.value == "skipped"
    assert "torch.onnx cannot export the model" in result.reason
    assert "\n" not in result.reason
    assert probed(torch.sin, torch.randn(3)).verdict.value == "skipped"


@needs_exporter
def test_what_onnx_runtime_has_no_kernel_for_is_skipped_with_the_reason() -> None:
    model = nn.Linear(8, 8).to(torch.bfloat16).eval()
    result = probed(model, torch.ones(4, 8, dtype=torch.bfloat16))
    assert result.verdict.value == "skipped"
    assert result.reason.startswith("ONNX Runtime cannot run the model: ")


@pytest.mark.skipif(
    inspect.signature(torch.onnx.export).parameters.get("dynamo") is None
    or inspect.signature(torch.onnx.export).parameters["dynamo"].default is not True,
    reason="torch 2.9 made this the exporter that is taken",
)
def test_the_exporter_writes_down_the_mode_that_a_model_is_in() -> None:
    """What DET201 says of `torch.onnx.export`: dropout is exported as it trains, and the mode is not switched."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(), torch.randn(2, 4)
    operators = []
    for training in (True, False):
        program = torch.onnx.export(model.train(training), (x,), verbose=False)
        assert program is not None
        assert model.training is training
        operators.append([node.op_type for node in program.model.graph])
    assert operators == [["Gemm", "Dropout"], ["Gemm"]]
