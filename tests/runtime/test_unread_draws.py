"""Random numbers that a model draws at inference: those that nothing reads do not make an audit fail."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import detlint
from detlint.findings import Severity

X = torch.linspace(-1, 1, 32).reshape(4, 8)


class SkipsInTraining(nn.Module):
    """Draws in any mode and looks at the number in training only, as encoders with layer drop do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand([])
        skipped = self.training and bool(drawn < 0.5)
        return x if skipped else self.linear(x)


class SkipsSeldom(SkipsInTraining):
    """Looks at the number, and seldom goes by it: two runs agree by luck."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if bool(torch.rand([]) < 1e-9) else self.linear(x)


def test_numbers_that_nothing_reads_are_told_and_allowed() -> None:
    report = detlint.audit(SkipsInTraining().eval(), X)
    assert report.ok
    (finding,) = [finding for finding in report.findings if finding.code == "DET206"]
    assert finding.severity is Severity.INFO
    assert (
        finding.message == "aten.rand.default in the model draws a random number at inference, which no operator reads"
    )


@pytest.mark.parametrize("training", [False, True])
def test_numbers_that_are_read_make_the_audit_fail(training: bool) -> None:
    model = (SkipsInTraining() if training else SkipsSeldom()).train(training)
    report = detlint.audit(model, X)
    assert not report.ok
    assert {finding.code for finding in report.probes["mode"].findings} == {"DET201" if training else "DET206"}
