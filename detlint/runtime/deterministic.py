"""Run a block or a function with everything seeded and every determinism setting on; put all back on exit."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import warnings
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch

from detlint.errors import UsageError
from detlint.runtime.flags import read_flags, write_flags
from detlint.runtime.generators import checked_seed, read_generators, seed_generators, write_generators
from detlint.runtime.process import write_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

CUBLAS_WORKSPACES: Final = (":4096:8", ":16:8")


_WARNED: Final = set[str]()
_RUN_LATER: Final = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


class DeterminismWarning(UserWarning):
    """Something that `deterministic()` could not set any more."""


_Function = TypeVar("_Function", bound="Callable[..., Any]")


class deterministic:
    """Make torch compute the same bits every time, as a context manager or a decorator.

    Seeds torch (all devices), NumPy and `random`; asks torch, cuDNN, oneDNN and torch.compile for
    deterministic algorithms, fills fresh memory, stops cuDNN from choosing algorithms by timing, and sets
    `CUBLAS_WORKSPACE_CONFIG`, `PYTHONHASHSEED` and `FLASH_ATTENTION_DETERMINISTIC`. Settings, environment
    and generators are as before on exit, also after an exception. Operators without a deterministic form
    raise, or only warn with `warn_only`. TF32 and other precisions stay as they are: they repeat on one
    machine.

        with detlint.deterministic(seed=0):
            train(model)

        @detlint.deterministic(seed=0)
        def train(model): ...

    Every call of the function is seeded anew.

    Raises:
        UsageError: `seed` is no integer that torch takes, as in `@deterministic` without parentheses; or what is
            decorated is a class, a generator or an async function, whose body does not run while it is called.
    """

    def __init__(self, seed: int = 0, *, warn_only: bool = False) -> None:
        if callable(seed):
            raise UsageError(
                f"deterministic(seed=…): expected an int, got {type(seed).__name__}; "
                "as a decorator write @deterministic() with parentheses"
            )
        self._seed = checked_seed(seed, "deterministic(seed=…)")
        self._warn_only = warn_only
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        block = _deterministic(self._seed, warn_only=self._warn_only)
        block.__enter__()
        self._entered.append(block)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)

    def __call__(self, function: _Function) -> _Function:
        """Run the body of a function under it, each time it is called."""
        if inspect.isclass(function):
            raise UsageError(f"@deterministic: {function.__name__} is a class: decorate its methods")
        called = inspect.unwrap(function)
        if any(runs_later(called) for runs_later in _RUN_LATER):
            raise UsageError(
                f"@deterministic: the body of {getattr(called, '__name__', called)} does not run while it is called, "
                "as it is a generator or async: write `with deterministic():` in it"
            )

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("_Function", run)


@contextmanager
def _deterministic(seed: int, *, warn_only: bool) -> Iterator[None]:
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
        write_variables(before)


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
    """Warn at the user's `with`, or at the call of what is decorated; once, as it is the process that is too late."""
    if message in _WARNED:
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, DeterminismWarning, stacklevel=level)
    _WARNED.add(message)  # not where warnings are errors: those are raised each time
