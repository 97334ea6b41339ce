"""Random generators and arrays that a model holds: nobody tells when they change, so they are looked at."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

try:
    import numpy as np
except ImportError:  # torch runs without NumPy
    np = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stream:
    """Where a random generator stands: one of torch, of Python or of NumPy."""

    def __init__(self, name: str, generator: Any) -> None:
        self.name = name
        self._generator = generator
        self._read, self._write = next(ways for kind, ways in _STREAMS.items() if isinstance(generator, kind))
        self._before = self._read(generator)

    def changed(self) -> Iterator[str]:
        """Yield the name if numbers were drawn, or if it was seeded."""
        if not self._stands():
            yield self.name

    def restore(self) -> None:
        """Put it back to where it stood."""
        if not self._stands():
            self._write(self._generator, self._before)

    def _stands(self) -> bool:
        before, now = tree_leaves(self._before), tree_leaves(self._read(self._generator))
        return len(before) == len(now) and all(map(_equal, before, now))


class Array:
    """The bytes of a NumPy array; `size` of them are copied by `save`, which comes first."""

    def __init__(self, name: str, array: Any) -> None:
        self.name = name
        self._array = array
        self.size: int = array.nbytes

    def save(self) -> None:
        """Copy the bytes: nobody tells when another library writes to them."""
        self._before = self._array.copy()

    def changed(self) -> Iterator[str]:
        """Yield the name if the bytes are others now."""
        if not self._intact():
            yield self.name

    def restore(self) -> None:
        """Write the copy back."""
        if not self._intact():
            self._array[...] = self._before

    def _intact(self) -> bool:
        same: bool = self._array.tobytes() == self._before.tobytes()
        return same


def _bit_state(generator: Any) -> Any:
    return copy.deepcopy(generator.bit_generator.state)


def _set_bit_state(generator: Any, state: Any) -> None:
    generator.bit_generator.state = state


def _equal(one: object, two: object) -> bool:
    """Are two pieces of the state of a generator the same: numbers, names, tensors or arrays?"""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return torch.equal(one, two)
    if np is not None and isinstance(one, np.ndarray):
        return np.array_equal(one, two)  # type: ignore[arg-type]
    return one == two


_STREAMS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]]] = {
    torch.Generator: (torch.Generator.get_state, torch.Generator.set_state),
    random.Random: (random.Random.getstate, random.Random.setstate),
}
"""Generators, and how to read and to write where they stand."""
if np is not None:
    _STREAMS[np.random.Generator] = (_bit_state, _set_bit_state)
    _STREAMS[np.random.RandomState] = (np.random.RandomState.get_state, np.random.RandomState.set_state)
GENERATORS: Final = tuple(_STREAMS)
ARRAYS: Final = () if np is None else (np.ndarray,)
