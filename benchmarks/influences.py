"""Which operators give other bits on the CPU under another setting? The evidence behind `rules/influences.toml`.

One record of every operator below is made under each setting, in a process of its own, and compared with a record
made without: the operators that depart from the same inputs are listed. `--python` adds the interpreter of an
environment with another torch.

    python benchmarks/influences.py [--python other/bin/python]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F

import detlint

SETTINGS: dict[str, tuple[dict[str, str], str]] = {  # name → variables of the process, and a statement to run first
    "1 thread against 2": ({}, "torch.set_num_threads(1)"),
    "oneDNN off": ({}, "torch._C._set_mkldnn_enabled(False)"),
    "deterministic algorithms": ({}, "torch.use_deterministic_algorithms(True)"),
    "AVX2 in torch": ({"ATEN_CPU_CAPABILITY": "avx2"}, ""),
    "no vectors in torch": ({"ATEN_CPU_CAPABILITY": "default"}, ""),
    "AVX2 in oneDNN": ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, ""),
    "MKL_CBWR=COMPATIBLE": ({"MKL_CBWR": "COMPATIBLE"}, ""),
    "OMP_NUM_THREADS=1": ({"OMP_NUM_THREADS": "1"}, ""),
}


def operators(x: torch.Tensor, image: torch.Tensor, index: torch.Tensor, cells: torch.nn.LSTM) -> list[torch.Tensor]:
    """Call each operator on the same inputs, so that each departs by itself."""
    half, kernel = x.bfloat16(), image[:8, :, :3, :3].contiguous()
    heads = x[:128].reshape(2, 4, 128, 64)
    functions = (torch.exp, torch.log1p, torch.sigmoid, torch.tanh, torch.erf, torch.sin, torch.rsqrt, F.gelu, F.silu)
    return [
        *(function(x) for function in (*functions, F.softplus)),
        x.sum(), x.sum(0), x.mean(1), x.var(), x.std(0), x.norm(), x.cumsum(0), x.prod(1), x.logsumexp(1),
        x.softmax(1), F.layer_norm(x, x.shape[1:]), F.group_norm(image, 2),
        F.batch_norm(image, None, None, training=True), F.avg_pool2d(image, 3), F.adaptive_avg_pool2d(image, 1),
        F.mse_loss(x, x.roll(1)), F.nll_loss(x, index[: len(x)] % x.shape[1]),
        x @ x, F.linear(x, x, x[0]), x[0] @ x, x @ x[0], torch.dot(x[0], x[1]), torch.bmm(image[:, 0], image[:, 1]),
        F.scaled_dot_product_attention(heads, heads, heads),
        F.conv2d(image, kernel), F.conv2d(image, kernel, stride=2, padding=1),
        F.conv1d(image[:, :, 0], kernel[:, :, 0]), F.conv_transpose2d(image, kernel.transpose(0, 1)),
        cells(x[None])[0],
        half @ half, F.linear(half, half), F.conv2d(image.bfloat16(), kernel.bfloat16()), half.sum(), half.softmax(1),
        torch.zeros(64).index_add(0, index % 64, x.flatten()), torch.zeros(64).scatter_add(0, index % 64, x.flatten()),
        torch.linalg.inv(x[:128, :128] + 50 * torch.eye(128)), torch.linalg.svdvals(x[:128, :128]),
        torch.fft.rfft(x).real,
    ]  # fmt: skip


def make_operators() -> object:
    """The cell's weights belong to the model, so the record holds them too."""
    torch.manual_seed(0)
    cells = torch.nn.LSTM(512, 64, batch_first=True).eval()
    return lambda x, image, index: operators(x, image, index, cells)


def make_inputs() -> tuple[torch.Tensor, ...]:
    """Tensors of a quarter of a million elements and more: from 32,768 on, threads share the work."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(512, 512, generator=generator) + 0.1
    return (
        x,
        torch.randn(8, 8, 64, 64, generator=generator),
        torch.randint(0, 1 << 20, (512 * 512,), generator=generator),
    )


def recorded(
    path: Path, *, python: str = sys.executable, variables: Mapping[str, str] | None = None, first: str = ""
) -> Path:
    """Record the operators in a process of its own, with these variables and after this statement."""
    code = f"import torch; {first or 'pass'}; import influences as i; import detlint\n"
    code += f"detlint.record(i.make_operators(), i.make_inputs(), {str(path)!r})"
    folders = [str(Path(__file__).parent), str(Path(detlint.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **(variables or {})}
    subprocess.run([python, "-W", "ignore", "-c", code], env=environment, check=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter of an environment with another torch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = recorded(Path(folder, "base"))
        for number, (name, (variables, first)) in enumerate(SETTINGS.items()):
            show(name, base, recorded(Path(folder, str(number)), variables=variables, first=first))
        if options.python:
            show(f"the torch of {options.python}", base, recorded(Path(folder, "other"), python=options.python))


def show(name: str, base: Path, other: Path) -> None:
    found = detlint.compare(base, other)
    alone = [item.event for item in found.departures if item.same_inputs and item.event is not None]
    listed = dict.fromkeys(f"{event.name.removeprefix('aten.')} ({event.outputs[0].dtype})" for event in alone)
    print(f"{name}: {', '.join(listed) or 'none'}", flush=True)
    if found.explanations:
        print(f"    suspected first: {found.explanations[0].subject}", flush=True)


if __name__ == "__main__":
    main()
