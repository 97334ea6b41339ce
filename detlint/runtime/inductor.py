"""What Inductor does to a graph and can be told not to, and the kernels that it made."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import torch
from torch.utils._pytree import tree_leaves

from detlint.runtime.compiling import has_settings
from detlint.runtime.flags import Flags
from detlint.runtime.switches import Blame, Switch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import fx

    from detlint.runtime.compiling import Compiler

_KERNEL: Final = re.compile(
    r"\b(?:cpp|triton)_\w*fused\w*|\bcpp_Cpp\w+|\bextern_kernels\.\w+|\btorch\.ops\.\w+\.\w+(?=(?:\.\w+)?\()"
)
"""Generated kernels, templates, and calls of libraries, in the code that Inductor writes."""


@dataclass(frozen=True, slots=True)
class Rewrite(Switch):
    """Something that Inductor does, and the `settings` under which it does not.

    `where` says whether it can matter for some nodes.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    where: Callable[[Sequence[fx.Node]], bool] = bool


def _rewrite(
    name: str,
    settings: Mapping[str, object],
    where: Callable[[Sequence[fx.Node]], bool] = bool,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Rewrite:
    return Rewrite(name, devices, Flags(), f"torch.compile(options={settings})", settings=settings, where=where)


def draws(nodes: Sequence[fx.Node]) -> bool:
    """Does one of the nodes draw random numbers?"""
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in nodes)


def _convolves(nodes: Sequence[fx.Node]) -> bool:
    return any("convolution" in str(node.target) for node in nodes)


def _in_half(nodes: Sequence[fx.Node]) -> bool:
    values = tree_leaves([node.meta.get("val") for node in nodes])
    return any(getattr(value, "dtype", None) in (torch.float16, torch.bfloat16) for value in values)


def _several(nodes: Sequence[fx.Node]) -> bool:
    return len(nodes) > 1


_SPLIT: Final = {
    "max_fusion_size": 1,
    "realize_reads_threshold": 0,
    "realize_acc_reads_threshold": 0,
    "epilogue_fusion": False,
}
REWRITES: Final = (
    _rewrite("Inductor's own random numbers", {"fallback_random": True}, draws),
    _rewrite("float32 kept from operator to operator", {"emulate_precision_casts": True}, _in_half),
    _rewrite("another memory format for convolutions", {"layout_optimization": False}, _convolves),
    _rewrite("the rewriting of patterns", {"pattern_matcher": False}, _several),
    _rewrite("fusion", _SPLIT),
    _rewrite("vector instructions", {"cpp.simdlen": 1}, devices=("cpu",)),
    _rewrite("split sums", {"split_reductions": False}, devices=("cuda",)),
)
"""In the order in which they are tried, what tells most first."""


def blame_rewrites(
    differs: Callable[[Compiler], bool], compiler: Compiler, nodes: Sequence[fx.Node], device: str
) -> Blame:
    """Tell Inductor to leave out one thing after the other; `differs` compiles and compares."""
    return Blame.of(
        (rewrite, differs(replace(compiler, settings=rewrite.settings)))
        for rewrite in REWRITES
        if device.partition(":")[0] in rewrite.devices and rewrite.where(nodes) and has_settings(rewrite.settings)
    )


@contextmanager
def watched_kernels() -> Iterator[list[str]]:
    """Yield a list that fills with the names of the kernels that Inductor's code calls; empty where it tells none."""
    from torch._inductor.graph import GraphLowering

    names: list[str] = []
    before = getattr(GraphLowering, "save_output_code", None)

    def read(code: str) -> None:
        names.extend(name for name in dict.fromkeys(_KERNEL.findall(code)) if name not in names)

    GraphLowering.save_output_code = staticmethod(read)
    try:
        yield names
    finally:
        GraphLowering.save_output_code = before
