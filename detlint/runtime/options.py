"""How the user wants the questions asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from detlint.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What `torch.compile(mode=…)` takes."""


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

    `compile_modes` and `compile_backend` are what `compile` passes to torch.compile; modes are Inductor's only.
    """

    runs: int = 3
    tiling: Tiling | None = None
    batch_dim: int | None = None
    compile_modes: tuple[str, ...] = ("default",)
    compile_backend: str | Callable[..., Any] = "inductor"

    def __post_init__(self) -> None:
        if self.runs < 2:
            raise UsageError(f"runs={self.runs}: at least 2 are needed to compare")
        if not self.compile_modes:
            raise UsageError(f"compile_modes is empty: expected some of {', '.join(COMPILE_MODES)}")
        if self.compile_backend != "inductor" and self.compile_modes != ("default",):
            raise UsageError("compile_modes: only Inductor has modes, and compile_backend names another backend")
        for mode in self.compile_modes:
            if mode not in COMPILE_MODES:
                raise UsageError(f"compile_modes: unknown mode {mode!r}{did_you_mean(mode, COMPILE_MODES)}")
        if isinstance(self.compile_backend, str) and self.compile_backend != "inductor":
            _check_backend(self.compile_backend)


def _check_backend(name: str) -> None:
    from torch._dynamo import list_backends  # importing the compiler takes a second

    backends = list_backends(exclude_tags=None)
    if name not in backends:
        raise UsageError(f"compile_backend: unknown backend {name!r}{did_you_mean(name, backends)}")
