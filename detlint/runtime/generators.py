"""The global random generators of torch, CUDA, NumPy and `random`: seeded together, saved and put back."""

from __future__ import annotations

import operator
import random
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from detlint.errors import UsageError

try:
    import numpy as np
except ImportError:  # torch runs without NumPy
    np = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Generators:
    """The states of all generators. Where CUDA was not started `cuda` is None and `seed` what it will get."""

    python: tuple[Any, ...]
    numpy: dict[str, Any] | tuple[Any, ...] | None
    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...] | None
    mps: torch.Tensor | None
    seed: int


def read_generators() -> Generators:
    """Where do the generators stand? Draws nothing and starts no device."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return Generators(
        python=random.getstate(),
        numpy=None if np is None else np.random.get_state(),
        cpu=torch.get_rng_state(),
        cuda=tuple(torch.cuda.get_rng_state_all()) if started else None,
        mps=torch.mps.get_rng_state() if torch.backends.mps.is_available() else None,
        seed=torch.initial_seed(),
    )


def write_generators(states: Generators) -> None:
    """Put every generator back to where it stood."""
    random.setstate(states.python)
    if states.numpy is not None:
        np.random.set_state(states.numpy)
    torch.set_rng_state(states.cpu)
    if states.cuda is not None:
        torch.cuda.set_rng_state_all(states.cuda)
    elif torch.cuda.is_available():
        torch.cuda.manual_seed_all(states.seed)  # CUDA generators begin from the seed of the CPU's
    if states.mps is not None:
        torch.mps.set_rng_state(states.mps)


def same_numpy(one: Generators, two: Generators) -> bool:
    """Did NumPy's generator stand at the same place, if there is one?"""
    if one.numpy is None or two.numpy is None:
        return True
    states = zip(tree_leaves(one.numpy), tree_leaves(two.numpy), strict=True)
    return all(np.array_equal(before, after) for before, after in states)


def checked_seed(seed: object, name: str) -> int:
    """Return a seed as an int; NumPy's integers are taken, bools are not.

    Raises:
        UsageError: it is none, or beyond what torch takes.
    """
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise UsageError(f"{name}: expected an int, got {type(seed).__name__}")
    number = operator.index(seed)
    if not -(2**63) <= number < 2**64:
        raise UsageError(f"{name}: {number} is beyond what torch takes, which is 64 bits")
    return number


def seed_generators(seed: int) -> None:
    """Seed every generator; NumPy takes the lowest 32 bits."""
    random.seed(seed)
    if np is not None:
        np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
