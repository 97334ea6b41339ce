"""The settings of the process that a model may change while it runs, put back together."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from detlint.runtime.flags import Flags, read_flags, write_flags

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Settings:
    """torch's switches, and what new tensors are like; `device` is None where no default was set."""

    flags: Flags
    grad: bool
    dtype: torch.dtype
    device: torch.device | None


def read_settings() -> Settings:
    """Which settings are in force now?"""
    return Settings(read_flags(), torch.is_grad_enabled(), torch.get_default_dtype(), _default_device())


def write_settings(wanted: Settings) -> None:
    """Put every setting that differs from now to its value in `wanted`."""
    if _default_device() != wanted.device:
        torch.set_default_device(wanted.device)
    if torch.get_default_dtype() != wanted.dtype:
        torch.set_default_dtype(wanted.dtype)
    torch.set_grad_enabled(wanted.grad)
    write_flags(wanted.flags)


@contextmanager
def kept_settings() -> Iterator[None]:
    """Put back what a block changes."""
    before = read_settings()
    try:
        yield
    finally:
        write_settings(before)


def _default_device() -> torch.device | None:
    """`torch.get_default_device` does not tell a default that was set from one that was not."""
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return None if context is None else context.device
