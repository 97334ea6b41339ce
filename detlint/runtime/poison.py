"""Fills memory that nothing was written to with a chosen byte, so that whoever reads it gives itself away."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from detlint.runtime.digests import is_plain
from detlint.runtime.overloads import facts_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_M_PERTURB: Final = -6
"""glibc's malloc.h: blocks are filled with the complement of this parameter's low byte when they are handed out."""

_UNTELLABLE: Final = 0xFF
"""Its complement, zero, switches the filling off."""

_usual: Final = os.environ.get("MALLOC_PERTURB_", "")
_contents: Final = [int(_usual) & 0xFF if _usual.isdecimal() else 0]
"""The parameter outside, which glibc reads from that variable at the start and does not tell, and of each block."""


@contextmanager
def poisoned(octet: int) -> Iterator[None]:
    """Fill all memory that is allocated during the block with a byte, 0 to 255.

    With glibc that is done by malloc itself, and reaches memory that a kernel allocates inside. Elsewhere, on
    other devices than the CPU, and for 255, which malloc cannot be told, operators that return memory unfilled
    (`empty`, `empty_like`, …) are caught instead; memory of kernels then holds what it holds outside the block.
    What torch fills by itself, under `fill_uninitialized_memory`, stays as torch leaves it.
    """
    told = octet != _UNTELLABLE
    _contents.append(~octet & 0xFF if told else _contents[-1])
    malloc = told and _perturb()
    try:
        with _Poison(octet, cpu=not malloc):
            yield
    finally:
        _contents.pop()
        if malloc:
            _perturb()


def _perturb() -> bool:
    """Tell glibc the innermost content; False where the C library is another one."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_PERTURB, _contents[-1]))


class _Poison(TorchDispatchMode):
    """Fills what operators return unfilled; on the CPU only if asked to."""

    supports_higher_order_operators = True

    def __init__(self, octet: int, *, cpu: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._octet = octet
        self._cpu = cpu

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if facts_of(func).unfilled and not _filled_by_torch():
            given = tensors_of((args, kwargs))
            for tensor in tensors_of(result):
                if any(tensor is other for other in given):
                    continue  # resized: what it held, it holds
                if is_plain(tensor) and not tensor.is_meta and (self._cpu or tensor.device.type != "cpu"):
                    octets = torch.empty(0, dtype=torch.uint8, device=tensor.device)
                    octets.set_(tensor.untyped_storage()).fill_(self._octet)
        return result


def _filled_by_torch() -> bool:
    flags = torch.utils.deterministic
    return torch.are_deterministic_algorithms_enabled() and flags.fill_uninitialized_memory  # type: ignore[attr-defined]
