"""The operator that departs, alone: its two calls, made as small as they can be while their results still differ."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from detlint.runtime.copies import Copier
from detlint.runtime.flags import Flags, using
from detlint.runtime.generators import read_generators, write_generators
from detlint.runtime.measure import same_bits
from detlint.runtime.overloads import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detlint.runtime.compiling import Compiler

_TRIES: Final = 200
"""How often a call that varies by itself is repeated before it counts as steady."""
_PATIENCE: Final = 2.0
"""Seconds after which such a call is not repeated any more."""
_SHRINKING: Final = 30.0
"""Seconds that are spent on making the calls smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of an operator, or of a part of a graph, with settings that it runs under.

    With a compiler, the compiled form is called. Of the results all count, or a window of the first.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    flags: Flags = Flags()  # noqa: RUF009  frozen
    window: tuple[slice, ...] = ()
    compiler: Compiler | None = None

    @contextmanager
    def ready(self) -> Iterator[Callable[[], tuple[torch.Tensor, ...]]]:
        """Apply settings and compiler for the time of a block; yield what calls it and leaves the arguments be."""
        applied = nullcontext(self.func) if self.compiler is None else self.compiler.applied(self.func)
        with using(self.flags), torch.no_grad(), applied as function:

            def run() -> tuple[torch.Tensor, ...]:
                args, kwargs = Copier().for_call(self.func, self.args, self.kwargs)
                results = tensors_of(function(*args, **kwargs))
                return (results[0][self.window],) if self.window else tuple(results)

            yield run

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments, in order."""
        leaves, _ = tree_flatten((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def with_tensors(self, tensors: list[torch.Tensor]) -> Call:
        """Return the call with other tensors in their places."""
        leaves, tree = tree_flatten((self.args, self.kwargs))
        rest = iter(tensors)
        args, kwargs = tree_unflatten([next(rest) if isinstance(x, torch.Tensor) else x for x in leaves], tree)
        return replace(self, args=args, kwargs=kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Repro:
    """Two calls whose results differ; without a second one, the first gives other bits when repeated."""

    cause: str
    one: Call
    two: Call | None = None

    def differs(self) -> bool:
        """Do the calls show the difference? Errors of the operator pass through."""
        generators = read_generators()

        def again(run: Callable[[], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
            write_generators(generators)
            return run()

        try:
            with self.one.ready() as run:
                first, start = again(run), time.monotonic()
                if self.two is None:
                    tries = takewhile(lambda _: time.monotonic() - start < _PATIENCE, range(_TRIES))
                    return any(not _same(first, again(run)) for _ in tries)
            with self.two.ready() as run:
                return not _same(first, again(run))
        finally:
            write_generators(generators)

    def calls(self) -> tuple[Call, ...]:
        return (self.one,) if self.two is None else (self.one, self.two)

    def mapped(self, change: Callable[[Call], Call]) -> Repro:
        """Change both calls in the same way."""
        return replace(self, one=change(self.one), two=None if self.two is None else change(self.two))


def _same(one: tuple[torch.Tensor, ...], two: tuple[torch.Tensor, ...]) -> bool:
    return len(one) == len(two) and all(map(same_bits, one, two))


def shrunk(repro: Repro) -> Repro:
    """Halve one size after the other, in all tensors that have it, as long as the difference stays.

    Calls that only share a part of their results keep their sizes: those are what the difference is about. So do
    compiled ones, which would be compiled anew each time.
    """
    if any(call.window or call.compiler for call in repro.calls()):
        return repro
    start, smaller = time.monotonic(), True
    while smaller:
        smaller = False
        for size in _sizes(repro):
            for candidate in _halved(repro, size):
                if time.monotonic() - start > _SHRINKING:
                    return repro
                if _shows(candidate):
                    repro, smaller = candidate, True
                    break
    return repro


def _shows(repro: Repro) -> bool:
    try:
        return repro.differs()
    except Exception:  # an operator refuses sizes in any way
        return False


def _sizes(repro: Repro) -> list[int]:
    sizes = {size for call in repro.calls() for tensor in call.tensors() for size in tensor.shape}
    return sorted((size for size in sizes if size > 1), reverse=True)


def _halved(repro: Repro, size: int) -> Iterator[Repro]:
    """Yield the calls with a size halved: numbers that index it stay, or are taken modulo what is left of it."""
    half = (size + 1) // 2
    for wrap in (False, True):

        def smaller(leaf: Any, wrap: bool = wrap) -> Any:
            if isinstance(leaf, torch.Tensor):
                return _cut(leaf, size, half, wrap=wrap)
            return half if type(leaf) is int and leaf == size else leaf

        def change(call: Call) -> Call:
            args, kwargs = tree_map(smaller, (call.args, call.kwargs))
            return replace(call, args=args, kwargs=kwargs)

        yield repro.mapped(change)


def _cut(tensor: torch.Tensor, size: int, half: int, *, wrap: bool) -> torch.Tensor:
    part = tensor
    for dim, extent in enumerate(tensor.shape):
        if extent == size:
            part = part.narrow(dim, 0, half)
    if wrap and not tensor.is_floating_point() and tensor.dtype is not torch.bool and part.numel():
        part = part % half if int(part.min()) >= 0 and half <= int(part.max()) < size else part
    return _dense_as(part, tensor)


def _dense_as(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Close the gaps that cutting left, in the same order of dimensions and at the same offset."""
    if part is whole or not torch.ops.aten.is_non_overlapping_and_dense(whole):
        return part
    strides = torch.empty_like(part).stride()
    memory = part.new_empty(whole.storage_offset() + part.numel())
    return memory.as_strided(part.shape, strides, whole.storage_offset()).copy_(part)
