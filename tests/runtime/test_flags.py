"""Settings are read as one value and written back whole, whatever was changed and through which interface."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
import torch

from detlint.runtime.flags import Flags, read_flags, write_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHANGES: dict[str, Callable[[], object]] = {
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "deterministic algorithms, warn only": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "memory is not filled": lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "cuDNN off": lambda: setattr(torch.backends.cudnn, "enabled", False),
    "cuDNN benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "cuDNN deterministic": lambda: setattr(torch.backends.cudnn, "deterministic", True),
    "oneDNN deterministic": lambda: torch._C._set_mkldnn_deterministic(True),
    "flash attention off": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "memory-efficient attention off": lambda: torch.backends.cuda.enable_mem_efficient_sdp(False),
    "cuDNN attention on or off": lambda: torch.backends.cuda.enable_cudnn_sdp(
        not torch.backends.cuda.cudnn_sdp_enabled()
    ),
    "math attention off": lambda: torch.backends.cuda.enable_math_sdp(False),
    "one thread": lambda: torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2),
    "half reductions": lambda: setattr(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    "bfloat16 reductions": lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    "half accumulation": lambda: setattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", True),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "TF32 in matmul": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "TF32 in cuDNN": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "new precision setting": lambda: torch._C._set_fp32_precision_setter("cuda", "matmul", "tf32"),
    "new precision setting for all": lambda: torch._C._set_fp32_precision_setter("generic", "all", "tf32"),
}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = read_flags()
    yield
    write_flags(before)
    assert read_flags() == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_write_flags_undoes_a_change(change: Callable[[], object]) -> None:
    before = read_flags()
    try:
        change()
    except (AttributeError, RuntimeError) as error:
        pytest.skip(f"torch {torch.__version__} has no such setting: {error}")
    assert read_flags() != before
    write_flags(before)
    assert read_flags() == before


def test_every_flag_is_read_on_this_torch() -> None:
    flags = read_flags()
    missing = [flag.name for flag in fields(Flags) if getattr(flags, flag.name) is None]
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):
        assert missing == []


def test_deterministic_mode_is_told_in_words() -> None:
    assert [
        (flags.deterministic, flags.warn_only)
        for flags in (replace(read_flags(), deterministic_mode=mode) for mode in (0, 1, 2))
    ] == [(False, False), (True, True), (True, False)]
