"""What decides which kernel runs and can be switched off, so that a cause is tested instead of guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from detlint.runtime.flags import Flags, read_flags, using

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from detlint.runtime.events import OpEvent


@dataclass(frozen=True, slots=True)
class Switch:
    """A library or a setting that decides on some kinds of device.

    `off` are the flags that take it out of play, `how` is what a user writes; `operators` is a part of the names
    of those it decides on, where these are few.
    """

    name: str
    devices: tuple[str, ...]
    off: Flags
    how: str
    operators: str = ""


SWITCHES: Final = (
    Switch(
        "the fast path of nn.MultiheadAttention",
        ("cpu", "cuda"),
        Flags(mha_fastpath=False),
        "torch.backends.mha.set_fastpath_enabled(False)",
        operators="_native_multi_head_attention",
    ),
    Switch("oneDNN", ("cpu",), Flags(mkldnn_enabled=False), "torch.backends.mkldnn.enabled = False"),
    Switch("several threads", ("cpu",), Flags(threads=1), "torch.set_num_threads(1)"),
    Switch(
        "cuDNN's choice by timing", ("cuda",), Flags(cudnn_benchmark=False), "torch.backends.cudnn.benchmark = False"
    ),
    Switch("cuDNN", ("cuda",), Flags(cudnn_enabled=False), "torch.backends.cudnn.enabled = False"),
    Switch(
        "TF32",
        ("cuda",),
        Flags(matmul_allow_tf32=False, cudnn_allow_tf32=False),
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False",
    ),
    Switch(
        "flash attention",
        ("cpu", "cuda"),
        Flags(flash_attention=False),
        "torch.backends.cuda.enable_flash_sdp(False)",  # decides on the CPU as well
        operators="attention",
    ),
    Switch(
        "memory-efficient attention",
        ("cuda",),
        Flags(mem_efficient_attention=False),
        "torch.backends.cuda.enable_mem_efficient_sdp(False)",
        operators="attention",
    ),
    Switch(
        "cuDNN attention",
        ("cuda",),
        Flags(cudnn_attention=False),
        "torch.backends.cuda.enable_cudnn_sdp(False)",
        operators="attention",
    ),
)


def in_force(devices: Iterable[str], switches: Iterable[Switch] = SWITCHES) -> list[Switch]:
    """Return those that change something on one of the devices, as torch names them ("cuda:0"), when switched off."""
    kinds = {device.partition(":")[0] for device in devices}
    now = read_flags().given()
    return [
        switch
        for switch in switches
        if not kinds.isdisjoint(switch.devices)
        and any(name in now and now[name] != value for name, value in switch.off.given().items())
    ]


@dataclass(frozen=True, slots=True)
class Blame:
    """What a difference was tested against: with each of `cures` alone it vanished, with `others` it stayed."""

    cures: tuple[Switch, ...] = ()
    others: tuple[Switch, ...] = ()

    @classmethod
    def of(cls, trials: Iterable[tuple[Switch, bool]]) -> Blame:
        """Sort what was tried by whether the difference stayed without it."""
        tried = list(trials)
        return cls(
            tuple(switch for switch, differs in tried if not differs),
            tuple(switch for switch, differs in tried if differs),
        )

    def __add__(self, other: Blame) -> Blame:
        return Blame((*self.cures, *other.cures), (*self.others, *other.others))

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


def blame(
    differs: Callable[[], bool], event: OpEvent, *, besides: Flags | None = None, switches: Iterable[Switch] = SWITCHES
) -> Blame:
    """Switch off one thing after the other; `differs` runs the operator of `event` on both sides and compares.

    `besides` are settings in which the sides differ anyway.
    """
    taken = set() if besides is None else besides.given().keys()

    def without(switch: Switch) -> bool:
        with using(switch.off):
            return differs()

    return Blame.of(
        (switch, without(switch))
        for switch in in_force([event.device], switches)
        if switch.operators in event.op and not taken & switch.off.given().keys()
    )
