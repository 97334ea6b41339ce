"""Compiles a model again in processes of their own, with empty caches: what is chosen by timing is chosen anew.

The model travels as an exported program, so that no code of its own has to be found or unpickled there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import torch

from detlint.errors import one_line
from detlint.runtime.capture import exported, quiet
from detlint.runtime.compiling import Compiler, plain_settings, settings
from detlint.runtime.flags import Flags, read_flags, write_flags
from detlint.runtime.generators import seed_generators
from detlint.runtime.inductor import watched_kernels
from detlint.runtime.sample import read_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from detlint.runtime.passes import Case

_SECONDS: Final = 600
"""How long a process may take."""
_START: Final = f"import sys; sys.path.append(sys.argv[1]); from {__name__} import answer; answer(sys.argv[2])"
_PROGRAM, _ORDER, _OUTPUT, _REPORT = "program.pt2", "order.json", "output.pt", "report.json"


class NotAgain(Exception):
    """The model could not be compiled in another process; says why in one line."""


@dataclass(frozen=True, slots=True, eq=False)
class FreshRun:
    """The outputs of one process, and the kernels that its code calls."""

    outputs: Mapping[str, torch.Tensor]
    kernels: tuple[str, ...]


def fresh_runs(case: Case, mode: str, times: int) -> Iterator[FreshRun]:
    """Compile the forward pass in one process after the other.

    Raises:
        NotAgain: the model cannot be exported, or the other process fails.
    """
    with TemporaryDirectory(prefix="detlint-") as name:
        folder = Path(name)
        sample = case.sample.copied()
        try:
            with quiet(), torch.set_grad_enabled(case.grad):
                torch.export.save(exported(case.model, sample.args, dict(sample.kwargs)), folder / _PROGRAM)
        except Exception as error:  # torch.export gives up with exceptions of its own
            raise NotAgain(f"torch.export raised {one_line(error)}") from error
        order = {
            "mode": mode,
            "seed": case.seed,
            "grad": case.grad,
            "flags": read_flags().given(),
            "settings": plain_settings(),
        }
        (folder / _ORDER).write_text(json.dumps(order), encoding="utf-8")
        for number in range(times):
            yield _run(folder, folder / f"caches{number}")


def _run(folder: Path, caches: Path) -> FreshRun:
    variables = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    }
    command = [sys.executable, "-c", _START, str(Path(__file__).parents[2]), str(folder)]
    try:
        done = subprocess.run(
            command, env=variables, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotAgain(f"it took longer than {_SECONDS} s in a process of its own") from None
    if done.returncode:
        raise NotAgain(f"a process of its own raised {(done.stderr.strip().splitlines() or ['nothing'])[-1][:300]}")
    outputs = torch.load(folder / _OUTPUT, weights_only=True)
    return FreshRun(outputs, tuple(json.loads((folder / _REPORT).read_text(encoding="utf-8"))))


def answer(place: str) -> None:
    """Do what the order in a folder says: the other side of `_run`. An error becomes one line and exit code 1."""
    try:
        _answer(Path(place))
    except Exception as error:
        sys.exit(one_line(error))


def _answer(folder: Path) -> None:
    order: dict[str, Any] = json.loads((folder / _ORDER).read_text(encoding="utf-8"))
    write_flags(Flags(**order["flags"]))
    program = torch.export.load(folder / _PROGRAM)
    args, kwargs = program.example_inputs or ((), {})
    seed_generators(order["seed"])
    with (
        settings(order["settings"]),
        watched_kernels() as kernels,
        Compiler(mode=order["mode"]).applied(program.module()) as compiled,
        torch.set_grad_enabled(order["grad"]),
    ):
        outputs = read_output(compiled(*args, **kwargs)).tensors
    torch.save({name: tensor.cpu() for name, tensor in outputs.items()}, folder / _OUTPUT)
    (folder / _REPORT).write_text(json.dumps(kernels), encoding="utf-8")
