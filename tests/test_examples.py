"""Every example runs, and says what it is there to show."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LINTED = {"train.py", "train_fixed.py"}  # what the linter is shown on: they need data, and are never run
SAYS = {
    "audit_small_model.py": (r"aten\.index_put_\.default|PASSED",),
    "batch_size.py": (
        r"repeat: bitwise",
        r"batch: (bitwise|rounding)",
        r"percentiles: 50: ",
        r"first operator: aten\.",
    ),
    "compare_two_runs.py": (
        r"(?s)\(nothing of it was tried\)\s+flags\.mkldnn_enabled on against off"
        r".*\(nothing of it was tried\)\s+weights: the weights differ: head\.bias first"
        r".*\(nothing of it was tried\)\s+inputs: the inputs differ in step 2: input first",
    ),
    "compiled.py": (r"PASSED Net", r"compile +beyond-rounding .*gelu"),
    "inference_pitfalls.py": (
        r"holds +without eval\(\), dropout makes each run another one",
        r"myth +eval\(\) turns all dropout off",
        r"holds +without eval\(\), a sample depends on its neighbours\n +batch: beyond-rounding",
        r"myth +torch\.empty\(\) is as good as zeros\(\)\n +allocator: beyond-rounding",
    ),
    "onnx_runtime.py": (r"onnx +rounding", r"onnx +beyond-rounding"),
    "tiling.py": (
        r"As it is:\n\n(.*\n)*?tiling +(bitwise|rounding)",
        r"Without oneDNN:\n\n(.*\n)*?tiling +bitwise",
        r"tiling +beyond-rounding .*norm",
    ),
    "unwritten_memory.py": (r"allocator +(beyond-rounding|bitwise)",),
}

ARGUMENTS = {"batch_size.py": ("64",)}  # the question's own 400 pixels take a minute


def test_every_example_is_named_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAYS.keys() | LINTED


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_says_what_it_shows(name: str) -> None:
    if name == "compiled.py" and shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("Inductor needs a C++ compiler")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *ARGUMENTS.get(name, ())],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for pattern in SAYS[name]:
        assert re.search(pattern, done.stdout), f"{pattern}\n{done.stdout}"
