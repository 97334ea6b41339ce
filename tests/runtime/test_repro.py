"""Scripts that show a difference again: small, standalone, and true."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import detlint
from detlint.errors import AuditError, UsageError


class Histogram(nn.Module):
    def forward(self, weights: torch.Tensor, bins: torch.Tensor) -> torch.Tensor:
        return weights.new_zeros(50).index_put_((bins,), weights, accumulate=True)


@pytest.fixture(scope="module")
def raced() -> detlint.AuditReport:
    sample = (torch.randn(1_000_000), torch.randint(0, 50, (1_000_000,)))
    return detlint.audit(Histogram(), sample, probes=["repeat"])


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 8, 3)).eval()


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)


def test_a_race_is_shown_again_on_smaller_inputs(raced: detlint.AuditReport, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    raced.save_repro(script)
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "aten.index_put_.default: result 0" in done.stdout
    assert "normal(" in script.read_text()
    assert ", 1000000)" not in script.read_text()
    assert "import detlint" not in script.read_text()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_setting_that_matters_is_in_the_script(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    detlint.audit(convolutional(), torch.randn(2, 3, 32, 32), probes=["backends"]).save_repro(script)
    text = script.read_text()
    assert run(script).returncode == 1
    assert "torch._C._set_mkldnn_enabled(False)" in text
    script.write_text(text.replace("torch._C._set_mkldnn_enabled(False)", "pass"))
    assert run(script).returncode == 0


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_layout_that_matters_is_in_the_script(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2)).eval()
    report = detlint.audit(model, torch.randn(2, 3, 64, 64), probes=["layout"])
    if report.probes["layout"].verdict.value == "bitwise":
        pytest.skip("this machine's kernels do not go by strides")
    report.save_repro(script, probe="layout")
    assert run(script).returncode == 1


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_sample_against_its_batch(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    report = detlint.audit(convolutional(), torch.randn(4, 3, 64, 64), probes=["batch"])
    if report.probes["batch"].verdict.value == "bitwise":
        pytest.skip("this machine's kernels do not go by the size of the batch")
    report.save_repro(script)
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "results[0][" in script.read_text()


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_a_part_of_a_compiled_graph(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()).eval()
    report = detlint.audit(model, torch.randn(16, 64), probes=["compile"])
    if report.probes["compile"].verdict.value == "bitwise":
        pytest.skip("Inductor gives the eager bits on this machine")
    report.save_repro(script)
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "compiled = torch.compile(part, backend='inductor')" in script.read_text()


def test_inputs_that_matter_are_stored(tmp_path: Path) -> None:
    def leftover(x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty(x.shape)

    script = tmp_path / "repro.py"
    detlint.audit(leftover, torch.randn(64, 64), probes=["allocator"]).save_repro(script)
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr


class Unwritten(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty(8) * x


def test_inputs_of_two_calls_that_are_not_parts_of_each_other_are_stored(tmp_path: Path) -> None:
    """Made up, they would have nothing to do with each other, and differ for any operator; NaN is shown here."""
    script = tmp_path / "repro.py"
    detlint.audit(Unwritten(), torch.zeros(8), probes=["allocator"]).save_repro(script)
    assert "normal(" not in script.read_text().partition("def one")[2]
    assert "differ, by at most nan" in run(script).stdout


def test_nothing_to_write_is_said(tmp_path: Path) -> None:
    report = detlint.audit(nn.Linear(3, 4), torch.randn(2, 3), probes=["repeat"])
    with pytest.raises(AuditError, match="nothing differs"):
        report.save_repro(tmp_path / "repro.py")
    with pytest.raises(UsageError, match="layout"):
        report.save_repro(tmp_path / "repro.py", probe="layout")
    assert not list(tmp_path.iterdir())


def test_what_no_script_can_call_is_said(tmp_path: Path) -> None:
    schema = "(Tensor bins, Tensor weights) -> Tensor"

    @torch.library.custom_op("detlint_test::counted", mutates_args=(), schema=schema)
    def counted(bins: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return weights.new_zeros(50).index_put_((bins,), weights, accumulate=True)

    sample = (torch.randint(0, 50, (1_000_000,)), torch.randn(1_000_000))
    report = detlint.audit(lambda bins, weights: counted(bins, weights), sample, probes=["repeat"], runs=12)
    with pytest.raises(AuditError, match=r"detlint_test\.counted"):
        report.save_repro(tmp_path / "repro.py")


def test_the_report_of_a_repro_is_json(raced: detlint.AuditReport) -> None:
    assert "repro" not in raced.to_dict()["probes"]["repeat"]
