"""torch's global settings that decide which bits come out: read as one value, written back as one value.

Environment report, `deterministic()` and the guard share this list, so a setting is named in one place.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from detlint.runtime.process import kept_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _inductor_deterministic() -> bool:
    """Importing the compiler's settings takes a second; before that, its variable is the answer.

    Older releases do not have the setting, whether imported or not: always off.
    """
    config = sys.modules.get("torch._inductor.config")
    if config is None:
        return os.environ.get("TORCHINDUCTOR_DETERMINISTIC") == "1"
    return bool(getattr(config, "deterministic", False))


def _set_inductor_deterministic(value: bool) -> None:
    with kept_process():  # it writes a variable of its own
        import torch._inductor.config as config

    if hasattr(config, "deterministic"):
        config.deterministic = value


def _fp32_precision(backend: str, operation: str) -> str:
    return str(torch._C._get_fp32_precision_getter(backend, operation))


def _set_fp32_precision(backend: str, operation: str, value: str) -> None:
    torch._C._set_fp32_precision_setter(backend, operation, value)


def _attribute(path: str) -> Any:
    """A flag that is an attribute below torch, read and assigned under the same name."""
    owner, _, name = path.rpartition(".")
    return _flag(
        lambda: attrgetter(path)(torch),
        lambda value: setattr(attrgetter(owner)(torch), name, value),
        f"torch.{path} = {{!r}}",
    )


def _functions(getter: str, setter: str) -> Any:
    """A flag behind a pair of functions below torch."""
    return _flag(
        lambda: attrgetter(getter)(torch)(),
        lambda value: attrgetter(setter)(torch)(value),
        f"torch.{setter}({{!r}})",
    )


def _precision(backend: str, operation: str) -> Any:
    return _flag(
        partial(_fp32_precision, backend, operation),
        partial(_set_fp32_precision, backend, operation),
        f"torch._C._set_fp32_precision_setter({backend!r}, {operation!r}, {{!r}})",
    )


def _flag(read: Callable[[], object], write: Callable[[Any], object], statement: str) -> Any:
    """`statement` is what a program writes to set the flag, with a place for the value."""
    return field(default=None, metadata={"read": read, "write": write, "statement": statement})


@dataclass(frozen=True, slots=True)
class Flags:
    """Every setting; None where this release of torch does not have it or refuses to tell.

    `deterministic_mode` is torch's debug mode: 0 off, 1 warn only, 2 raise. torch refuses to tell the older
    precision settings (`*_allow_tf32`, `float32_matmul_precision`) once the newer `fp32_precision` ones
    were used.
    """

    deterministic_mode: int = _functions("get_deterministic_debug_mode", "set_deterministic_debug_mode")
    fill_uninitialized_memory: bool | None = _attribute("utils.deterministic.fill_uninitialized_memory")
    inductor_deterministic: bool | None = _flag(
        _inductor_deterministic, _set_inductor_deterministic, "torch._inductor.config.deterministic = {!r}"
    )
    cudnn_enabled: bool | None = _attribute("backends.cudnn.enabled")
    cudnn_deterministic: bool | None = _attribute("backends.cudnn.deterministic")
    cudnn_benchmark: bool | None = _attribute("backends.cudnn.benchmark")
    mkldnn_enabled: bool | None = _functions("_C._get_mkldnn_enabled", "_C._set_mkldnn_enabled")
    mkldnn_deterministic: bool | None = _functions("_C._get_mkldnn_deterministic", "_C._set_mkldnn_deterministic")
    flash_attention: bool | None = _functions("backends.cuda.flash_sdp_enabled", "backends.cuda.enable_flash_sdp")
    mem_efficient_attention: bool | None = _functions(
        "backends.cuda.mem_efficient_sdp_enabled", "backends.cuda.enable_mem_efficient_sdp"
    )
    cudnn_attention: bool | None = _functions("backends.cuda.cudnn_sdp_enabled", "backends.cuda.enable_cudnn_sdp")
    math_attention: bool | None = _functions("backends.cuda.math_sdp_enabled", "backends.cuda.enable_math_sdp")
    mha_fastpath: bool | None = _functions("backends.mha.get_fastpath_enabled", "backends.mha.set_fastpath_enabled")
    threads: int | None = _functions("get_num_threads", "set_num_threads")
    fp16_reduced_precision_reduction: bool | None = _attribute(
        "backends.cuda.matmul.allow_fp16_reduced_precision_reduction"
    )
    bf16_reduced_precision_reduction: bool | None = _attribute(
        "backends.cuda.matmul.allow_bf16_reduced_precision_reduction"
    )
    fp16_accumulation: bool | None = _attribute("backends.cuda.matmul.allow_fp16_accumulation")
    float32_matmul_precision: str | None = _functions("get_float32_matmul_precision", "set_float32_matmul_precision")
    matmul_allow_tf32: bool | None = _attribute("backends.cuda.matmul.allow_tf32")
    cudnn_allow_tf32: bool | None = _attribute("backends.cudnn.allow_tf32")
    # The newer settings come last: writing an older one changes them, and they have a third value, "none".
    fp32_precision: str | None = _precision("generic", "all")
    fp32_precision_cuda: str | None = _precision("cuda", "all")
    fp32_precision_cuda_matmul: str | None = _precision("cuda", "matmul")
    fp32_precision_cudnn_conv: str | None = _precision("cuda", "conv")
    fp32_precision_cudnn_rnn: str | None = _precision("cuda", "rnn")
    fp32_precision_mkldnn: str | None = _precision("mkldnn", "all")
    fp32_precision_mkldnn_matmul: str | None = _precision("mkldnn", "matmul")
    fp32_precision_mkldnn_conv: str | None = _precision("mkldnn", "conv")
    fp32_precision_mkldnn_rnn: str | None = _precision("mkldnn", "rnn")

    def given(self) -> dict[str, object]:
        """Return the settings that are not None."""
        return {flag.name: value for flag in fields(self) if (value := getattr(self, flag.name)) is not None}

    @property
    def deterministic(self) -> bool:
        """Is `torch.use_deterministic_algorithms(True)` in force, with or without `warn_only`?"""
        return self.deterministic_mode > 0

    @property
    def warn_only(self) -> bool:
        """Does an operator without a deterministic form only warn?"""
        return self.deterministic_mode == 1


def read_flags() -> Flags:
    """Which settings are in force now?"""
    return Flags(**{flag.name: _read(flag.metadata["read"]) for flag in fields(Flags)})


def write_flags(wanted: Flags) -> None:
    """Put every setting that is not None in `wanted` and differs from now to its value there.

    Settings that this release does not have are left out.
    """
    given = wanted.given()
    for flag in fields(Flags):
        if flag.name in given and given[flag.name] != _read(flag.metadata["read"]):
            with suppress(AttributeError):
                flag.metadata["write"](given[flag.name])


def statements(wanted: Flags) -> list[str]:
    """Return the lines of a program that set the flags which are not None."""
    given = wanted.given()
    return [flag.metadata["statement"].format(given[flag.name]) for flag in fields(Flags) if flag.name in given]


@contextmanager
def using(wanted: Flags) -> Iterator[None]:
    """Write flags for the time of a block."""
    before = read_flags()
    try:
        write_flags(wanted)
        yield
    finally:
        write_flags(before)


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (AttributeError, RuntimeError):  # not in this release; old and new precision settings mixed
        return None
