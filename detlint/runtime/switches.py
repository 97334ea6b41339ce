"""What decides which kernel runs and can be switched off, so that a cause is tested instead of guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from detlint.runtime.flags import Flags, read_flags, using

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Switch:
    """A library or a setting for one kind of device.

    `off` are the flags that take it out of play, `how` is what a user writes.
    """

    device: str
    name: str
    off: Flags
    how: str

    def in_force(self) -> bool:
        """Would switching it off change a setting now?"""
        now = read_flags().given()
        return any(name in now and now[name] != value for name, value in self.off.given().items())


SWITCHES: Final = (
    Switch("cpu", "oneDNN", Flags(mkldnn_enabled=False), "torch.backends.mkldnn.enabled = False"),
    Switch("cpu", "several threads", Flags(threads=1), "torch.set_num_threads(1)"),
    Switch("cuda", "cuDNN's choice by timing", Flags(cudnn_benchmark=False), "torch.backends.cudnn.benchmark = False"),
    Switch("cuda", "cuDNN", Flags(cudnn_enabled=False), "torch.backends.cudnn.enabled = False"),
    Switch(
        "cuda",
        "TF32",
        Flags(matmul_allow_tf32=False, cudnn_allow_tf32=False),
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False",
    ),
    Switch(
        "cuda",
        "fused attention",
        Flags(flash_attention=False, mem_efficient_attention=False, cudnn_attention=False),
        "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
    ),
)


@dataclass(frozen=True, slots=True)
class Blame:
    """What a difference was tested against: with each of `cures` alone it vanished, with `others` it stayed."""

    cures: tuple[Switch, ...] = ()
    others: tuple[Switch, ...] = ()

    def after(self, cause: str) -> str:
        """Add what was found to a sentence on the cause."""
        names = " or without ".join(cure.name for cure in self.cures)
        return f"{cause}; it vanishes without {names}" if names else cause

    @property
    def remedy(self) -> str:
        """What a user can write to get the same bits."""
        return self.cures[0].how if self.cures else ""

    @property
    def evidence(self) -> tuple[str, ...]:
        """One line for each test that was made."""
        return (
            *(f"without {cure.name}: the same bits" for cure in self.cures),
            *(f"without {other.name}: other bits still" for other in self.others),
        )


def blame(differs: Callable[[], bool], device: str, *, besides: Flags | None = None) -> Blame:
    """Switch off one thing after the other; `differs` makes both sides again and compares them.

    `device` is the one that computes, as torch names it ("cuda:0"); `besides` are settings in which the sides
    differ anyway.
    """
    taken = set() if besides is None else besides.given().keys()
    cures: list[Switch] = []
    others: list[Switch] = []
    for switch in SWITCHES:
        if switch.device == device.partition(":")[0] and switch.in_force() and not taken & switch.off.given().keys():
            with using(switch.off):
                (others if differs() else cures).append(switch)
    return Blame(tuple(cures), tuple(others))
