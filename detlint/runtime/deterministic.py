"""Run a block or a function with everything seeded and every determinism setting on; put all back on exit."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch

from detlint.errors import UsageError
from detlint.runtime.flags import read_flags, write_flags
from detlint.runtime.generators import read_generators, seed_generators, write_generators

if TYPE_CHECKING:
    from collections.abc import Iterator

CUBLAS_WORKSPACES: Final = (":4096:8", ":16:8")


class DeterminismWarning(UserWarning):
    """Something that `deterministic()` could not set any more."""


@contextmanager
def deterministic(seed: int = 0, *, warn_only: bool = False) -> Iterator[None]:
    """Make torch compute the same bits every time, as a context manager or a decorator.

    Seeds torch (all devices), NumPy and `random`; asks torch, cuDNN, oneDNN and torch.compile for
    deterministic algorithms, fills fresh memory, stops cuDNN from choosing algorithms by timing, and sets
    `CUBLAS_WORKSPACE_CONFIG`, `PYTHONHASHSEED` and `FLASH_ATTENTION_DETERMINISTIC`. Settings, environment
    and generators are as before on exit, also after an exception. Operators without a deterministic form
    raise, or only warn with `warn_only`. TF32 and other precisions stay as they are: they repeat on one
    machine.

        with detlint.deterministic(seed=0):
            train(model)

    Raises:
        UsageError: `seed` is no integer, as in `@deterministic` without parentheses.
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise UsageError(
            f"deterministic(seed=…): expected an int, got {type(seed).__name__}; "
            "as a decorator write @deterministic() with parentheses"
        )
    flags, generators = read_flags(), read_generators()
    variables = _variables(seed)
    before = {name: os.environ.get(name) for name in variables}
    _warn_of_what_is_too_late()
    try:
        os.environ.update(variables)
        write_flags(
            replace(
                flags,
                deterministic_mode=1 if warn_only else 2,
                fill_uninitialized_memory=True,
                inductor_deterministic=True,
                cudnn_deterministic=True,
                cudnn_benchmark=False,
                mkldnn_deterministic=True,
            )
        )
        seed_generators(seed)
        yield
    finally:
        write_generators(generators)
        write_flags(flags)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _variables(seed: int) -> dict[str, str]:
    """A workspace or hash seed that is already fixed stays: it is as good, and changing it is too late."""
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    return {
        "CUBLAS_WORKSPACE_CONFIG": workspace if workspace in CUBLAS_WORKSPACES else CUBLAS_WORKSPACES[0],
        "PYTHONHASHSEED": os.environ["PYTHONHASHSEED"] if _hash_seed_is_fixed() else str(seed % 2**32),
        "FLASH_ATTENTION_DETERMINISTIC": "1",
    }


def _hash_seed_is_fixed() -> bool:
    return os.environ.get("PYTHONHASHSEED", "").isdecimal()


def _warn_of_what_is_too_late() -> None:
    if sys.flags.hash_randomization and not _hash_seed_is_fixed():
        _warn("PYTHONHASHSEED was not set when Python started: sets of str are ordered anew in every process")
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if started and os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in CUBLAS_WORKSPACES:
        _warn("CUBLAS_WORKSPACE_CONFIG was not set before CUDA started: products on several streams can differ")


def _warn(message: str) -> None:
    # 4: this function, its caller, the generator, contextlib's __enter__; what is left is the user's `with`
    warnings.warn(message, DeterminismWarning, stacklevel=5)
