"""How the user wants the questions asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from detlint.errors import UsageError, did_you_mean
from detlint.tables import DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from torch import Tensor

DEFAULT_PROBES: Final = ("repeat", "mode", "history", "grad", "layout", "threads")
OTHER_PROBES: Final = ("batch", "tiling", "compile", "backends", "precision", "allocator", "device", "onnx")
"""Probes that are asked if none is named, and the rest: for help texts, which do not import torch."""
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What `torch.compile(mode=…)` takes."""
_ALLOWED: Final = ("rounding", "bitwise")


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a fully convolutional model takes its image in tiles; all sizes in pixels.

    `min_input_size` is the least tile it takes, `min_output_size` what comes out of that, and `stride` the
    distance of tiles on the input that keeps the model's grid. None: worked out from the traced model.
    """

    min_input_size: int | None = None
    min_output_size: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        for name in ("min_input_size", "min_output_size", "stride"):
            size = getattr(self, name)
            if size is not None and (not isinstance(size, int) or size < 1):
                raise UsageError(f"Tiling({name}={size!r}): expected a number of pixels, at least 1")


@dataclass(frozen=True, slots=True)
class Options:
    """`runs` for `repeat` and for what `compile` makes, `tiling` for `tiling`, `batch_dim` for `batch` (None: found).

    `compile_modes` and `compile_backend` are what `compile` passes to torch.compile; modes are Inductor's only. The
    others are those of `audit`. A single name may be given for several.
    """

    runs: int = 3
    tiling: Tiling | None = None
    batch_dim: int | None = None
    compile_modes: Sequence[str] = ("default",)
    compile_backend: str | Callable[..., Any] = "inductor"
    targets: Sequence[str] = ("cpu", "cuda")
    allow: str = "rounding"
    strict: bool = False
    reference: bool = True
    execute: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.runs, int):
            raise UsageError(f"runs={self.runs!r}: expected an int")
        if self.runs < 2:
            raise UsageError(f"runs={self.runs}: at least 2 are needed to compare")
        if not isinstance(self.tiling, (Tiling, NoneType)):
            raise UsageError(f"tiling={self.tiling!r}: expected detlint.Tiling(…)")
        if not isinstance(self.batch_dim, (int, NoneType)):
            raise UsageError(f"batch_dim={self.batch_dim!r}: expected an int")
        check_flags(strict=self.strict, reference=self.reference, execute=self.execute)
        check_allowed(self.allow)
        for name, kind, known in (("compile_modes", "mode", COMPILE_MODES), ("targets", "device", DEVICES)):
            object.__setattr__(self, name, chosen(name, kind, getattr(self, name), known))
            if not getattr(self, name):
                raise UsageError(f"{name} is empty: expected some of {', '.join(known)}")
        if self.compile_backend != "inductor" and self.compile_modes != ("default",):
            raise UsageError("compile_modes: only Inductor has modes, and compile_backend names another backend")
        if isinstance(self.compile_backend, str) and self.compile_backend != "inductor":
            _check_backend(self.compile_backend)


def chosen(option: str, kind: str, given: object, known: Collection[str]) -> tuple[str, ...]:
    """Return the names that were given, one or several.

    Raises:
        UsageError: one is not known.
    """
    several = (given,) if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise UsageError(f"{option}={given!r}: expected some of {', '.join(known)}")
    listed = tuple(several)
    for name in listed:
        if not isinstance(name, str) or name not in known:
            hint = did_you_mean(str(name), known) or f": expected some of {', '.join(known)}"
            raise UsageError(f"{option}: unknown {kind} {name!r}{hint}")
    return listed


def check_allowed(allow: object) -> None:
    """Raise UsageError for what is no answer to how far results may differ."""
    if not isinstance(allow, str) or allow not in _ALLOWED:
        raise UsageError(f"allow={allow!r}: expected 'rounding' or 'bitwise'{did_you_mean(str(allow), _ALLOWED)}")


def check_flags(**flags: object) -> None:
    """Raise UsageError for a word where True or False is meant: "no" would count as yes."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise UsageError(f"{name}={value!r}: expected True or False")


def check_batch_dim(dim: int | None, tensors: Mapping[str, Tensor]) -> None:
    """Raise UsageError for a dimension that no tensor of a sample has."""
    most = max((tensor.dim() for tensor in tensors.values()), default=0)
    if dim is not None and not -most <= dim < most:
        raise UsageError(f"batch_dim={dim}: the tensors of the sample have at most {most} dimensions")


def check_loss(loss: object, backward: object) -> None:
    """Raise UsageError for a loss that cannot be called, or is not asked for."""
    check_flags(backward=backward)
    if loss is not None and not callable(loss):
        raise UsageError(f"loss={loss!r}: expected a function of the output")
    if loss is not None and not backward:
        raise UsageError("loss: it counts in a backward pass only: pass backward=True too")


def _check_backend(name: str) -> None:
    from torch._dynamo import list_backends  # importing the compiler takes a second

    backends = list_backends(exclude_tags=None)
    if name not in backends:
        raise UsageError(f"compile_backend: unknown backend {name!r}{did_you_mean(name, backends)}")
