"""The snapshot holds what decides results, leaves CUDA alone, and becomes JSON and text."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields

import pytest
import torch

from detlint.reports.environment_text import render_environment
from detlint.runtime.environment import Environment, effect, read_environment
from detlint.runtime.flags import Flags


def test_snapshot_becomes_json_with_every_field_and_flag() -> None:
    table = json.loads(json.dumps(read_environment().to_dict()))
    assert list(table) == [field.name for field in fields(Environment)]
    assert list(table["flags"]) == [field.name for field in fields(Flags)]
    assert table["torch"] == torch.__version__
    assert table["flags"]["threads"] == torch.get_num_threads()


@pytest.mark.parametrize(
    ("variable", "known"),
    [
        ("CUBLAS_WORKSPACE_CONFIG", True),
        ("PYTHONHASHSEED", True),
        ("NCCL_ALGO", True),
        ("TORCHINDUCTOR_DETERMINISTIC", True),
        ("MKL_CBWR", True),
        ("OMP_NUM_THREADS", True),
        ("HOME", False),
        ("NCCL", False),
        ("PYTHONHASHSEEDS", False),
    ],
)
def test_variables_that_decide_results(variable: str, known: bool) -> None:
    assert (effect(variable) is not None) is known


def test_variables_are_read_in_sorted_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    variables = read_environment().variables
    assert ("CUBLAS_WORKSPACE_CONFIG", ":4096:8") in variables
    assert ("NCCL_ALGO", "Ring") in variables
    assert list(variables) == sorted(variables)


def test_snapshot_does_not_start_cuda() -> None:
    code = (
        "import torch; from detlint.runtime.environment import read_environment; "
        "read_environment(); print(torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_text_names_every_flag_and_explains_variables() -> None:
    table = {**read_environment().to_dict(), "variables": {"NCCL_ALGO": "Ring"}}
    table["gpus"] = [{"name": "Example", "capability": "9.0", "multiprocessors": 132, "memory": 80 * 2**30}]
    text = render_environment(table, {"NCCL_ALGO": "algorithm of sums"})
    lines = [line.split() for line in text.splitlines()]
    for field in fields(Flags):
        assert any(words[:1] == [field.name] for words in lines), field.name
    assert "Ring  (algorithm of sums)" in text
    assert "Example, sm_90, 132 multiprocessors, 80 GiB" in text
    assert text.startswith("versions\n  detlint")


def test_text_says_when_no_variable_is_set() -> None:
    table = {**read_environment().to_dict(), "variables": {}}
    assert render_environment(table, {}).endswith("variables\n  none is set\n")
