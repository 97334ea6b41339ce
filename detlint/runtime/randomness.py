"""Which random generators did an operator, or a whole pass, draw from?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import _disable_current_modes

from detlint.runtime.generators import Generators, read_generators, same_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class DrawWatch:
    """The states of the generators that an operator could draw from, by name, before it ran."""

    states: tuple[tuple[str, torch.Generator, torch.Tensor], ...]

    def drawn(self) -> tuple[str, int] | None:
        """Return the name and the seed of the generator that moved since."""
        with _disable_current_modes():  # fake tensors cannot be compared
            for name, generator, before in self.states:
                if not torch.equal(generator.get_state(), before):
                    return name, generator.initial_seed()
        return None


def watch_draws(arguments: Iterable[object]) -> DrawWatch:
    """Note the states of torch's default generators and of those among `arguments`."""
    generators = [("cpu", torch.default_generator)]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += [(f"cuda:{number}", item) for number, item in enumerate(torch.cuda.default_generators)]
    generators += [("given", value) for value in arguments if isinstance(value, torch.Generator)]
    return DrawWatch(tuple((name, item, item.get_state()) for name, item in generators))


def moved(before: Generators) -> tuple[str, ...]:
    """Name the global generators that moved since `before`: "cpu", "cuda:0", "mps", "numpy", "random"."""
    after = read_generators()
    names = []
    if not torch.equal(before.cpu, after.cpu):
        names.append("cpu")
    if before.cuda is not None and after.cuda is not None:
        pairs = zip(before.cuda, after.cuda, strict=True)
        names += [f"cuda:{number}" for number, (old, new) in enumerate(pairs) if not torch.equal(old, new)]
    if before.mps is not None and after.mps is not None and not torch.equal(before.mps, after.mps):
        names.append("mps")
    if not same_numpy(before, after):
        names.append("numpy")
    if before.python != after.python:
        names.append("random")
    return tuple(names)
