"""Runs one operator alone: on inputs captured from a pass, as often as wanted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from detlint.runtime.copies import Copier
from detlint.runtime.digests import Digester
from detlint.runtime.flags import Flags
from detlint.runtime.generators import read_generators, write_generators
from detlint.runtime.overloads import facts_of, tensors_of
from detlint.runtime.repro import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from detlint.runtime.events import Digest

RERUNS: Final = 20
"""How often an operator is run alone; as long as the results agree, up to ten times as often."""
_PATIENCE: Final = 6.0
"""Seconds after which an operator is not run again."""


@dataclass(frozen=True, slots=True, eq=False)
class Reruns:
    """How often an operator ran alone, and one result for each set of bits that came out."""

    times: int
    results: tuple[tuple[torch.Tensor, ...], ...]


class Capture:
    """Watches for one event of a trace and keeps copies of what went in and came out."""

    def __init__(self, index: int) -> None:
        self._index = index
        self.func: Any = None
        self.outputs: tuple[torch.Tensor, ...] = ()
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy the arguments of the event."""
        if index == self._index:
            self.func = func
            self._arguments = Copier().tree((args, kwargs))
            self._generators = read_generators()

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        """Copy what the event returned and wrote."""
        if index == self._index:
            self.outputs = tuple(Copier().tensor(tensor) for tensor in outputs)

    def inputs(self) -> tuple[Digest | None, ...]:
        """Digests of what went in, in the order of an event's `inputs`."""
        args, kwargs = self._arguments
        return _digests(tensors_of(list(facts_of(self.func).by_name(args, kwargs).values())))

    def call(self, flags: Flags | None = None, window: tuple[slice, ...] = ()) -> Call:
        """Return the call that was captured, for a script."""
        args, kwargs = self._arguments
        return Call(self.func, args, kwargs, flags or Flags(), window)

    def rerun(self) -> tuple[torch.Tensor, ...]:
        """Run the operator on its inputs, which stay as they are; return what `outputs` holds."""
        args, kwargs = Copier().for_call(self.func, *self._arguments)
        write_generators(self._generators)
        with torch.no_grad():
            result = self.func(*args, **kwargs)
        facts = facts_of(self.func)
        given = facts.by_name(args, kwargs)
        written = [tensor for name in facts.written_by(given) for tensor in tensors_of(given[name])]
        fresh = [tensor for tensor in tensors_of(result) if not any(tensor is other for other in written)]
        return (*fresh, *written)

    def reruns(self) -> Reruns:
        """Run it again and again; on a busy machine threads overlap rarely, so agreement is tried for longer."""
        results: dict[tuple[Digest | None, ...], tuple[torch.Tensor, ...]] = {}
        before, start, times = read_generators(), time.monotonic(), 0
        try:
            while times < (RERUNS if len(results) > 1 else 10 * RERUNS) and time.monotonic() - start < _PATIENCE:
                outputs = self.rerun()
                results.setdefault(_digests(outputs), outputs)
                times += 1
        finally:
            write_generators(before)
        return Reruns(times, tuple(results.values()))


class CaptureEach:
    """Captures several events of a pass, one after the other, and runs each alone as soon as it is over.

    Only those that gave several results are kept, in `varying`.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._indices = frozenset(indices)
        self._current = Capture(-1)
        self.reruns: dict[int, Reruns] = {}
        self.varying: dict[int, Capture] = {}

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy the arguments of a wanted event."""
        if index in self._indices:
            self._current = Capture(index)
            self._current.before(index, func, args, kwargs)

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        """Run a wanted event again."""
        if index in self._indices:
            self.reruns[index] = self._current.reruns()
            if len(self.reruns[index].results) > 1:
                self.varying[index] = self._current
            self._current = Capture(-1)


def _digests(tensors: Sequence[torch.Tensor]) -> tuple[Digest | None, ...]:
    digester = Digester()
    digests = [digester.digest(tensor) for tensor in tensors]
    tickets = digester.fetch()
    return tuple(None if digest is None else tickets.get(digest, digest) for digest in digests)
