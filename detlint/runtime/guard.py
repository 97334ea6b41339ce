"""Leaves the model, the generators and torch's settings as they were, between runs and after exceptions too."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import torch

from detlint.errors import one_line
from detlint.runtime.digests import is_plain
from detlint.runtime.generators import read_generators, write_generators
from detlint.runtime.held import Content, Held, TensorState, memory_of
from detlint.runtime.held_numbers import Array, Stream
from detlint.runtime.parts import parts_of
from detlint.runtime.settings import read_settings, write_settings
from detlint.runtime.surroundings import surroundings
from detlint.runtime.targets import named_modules, named_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

_MOST: Final = 50_000
"""Containers and objects that are looked into; a data set can hold any number of them."""
_MOST_BYTES: Final = 2**28
"""Bytes of arrays that are copied, all together."""


class Guard:
    """Context manager around an audit; `rewind` puts the modules back between two runs.

    Buffers are copied at once. Other tensors are digested, and copied only when an operator is about to write to
    them (the tracer calls `about_to_write`), so an audit does not need the model's memory twice.
    What the code of the `model` keeps elsewhere, in globals, classes and objects, is put back too.
    On exit `problems` says what changed behind the tracer's back, or refused to be put back.
    """

    def __init__(self, modules: Sequence[torch.nn.Module], model: object = None) -> None:
        self._roots = modules
        self._model = model
        self.problems: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self._settings, self._generators = read_settings(), read_generators()
        self._refused: dict[str, str] = {}
        self._parts: list[Held] = []
        self._states: dict[int, TensorState] = {}
        self._contents: dict[int, Content] = {}
        for name, tensor in named_tensors(self._roots):
            self._hold(name, tensor, copied=not isinstance(tensor, torch.nn.Parameter))
        met: set[int] = set()
        parts = (part for path, module in named_modules(self._roots) for part in parts_of(path, module, met))
        arrays = 0
        for part in islice(chain(parts, surroundings(self._model, self._roots, met)), _MOST):
            if isinstance(part, tuple):
                self._hold(*part, copied=False)
                continue
            if isinstance(part, Array):
                arrays += part.size
                if arrays > _MOST_BYTES:
                    continue
                part.save()
            self._parts.append(part)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rewind()
        unseen = (
            f"{content.name} was changed by something the tracer cannot see, and is not as it was"
            for content in self._contents.values()
            if content.name not in self._refused and not content.intact()
        )
        beyond = (f"only the first {_MOST} containers and objects were looked into",) * (len(self._parts) >= _MOST)
        self.problems = (*self._refused.values(), *unseen, *beyond)
        write_settings(self._settings)
        write_generators(self._generators)

    def rewind(self) -> None:
        """Put the modules back to where they were on entry; what refuses keeps nothing else from it."""
        self._restore(self._held())

    def rewind_streams(self) -> None:
        """Put the random generators that the model holds back to where they stood on entry, and nothing else."""
        self._restore(part for part in self._parts if isinstance(part, Stream))

    def _restore(self, parts: Iterable[Held]) -> None:
        for held in parts:
            try:
                held.restore()
            except Exception as error:  # containers and tensors of any class
                self._refused[held.name] = f"{held.name} could not be put back: {one_line(error)}"

    def changed(self) -> tuple[str, ...]:
        """Which attributes of the modules, parameters and buffers changed since entry? Torch's own left out."""
        return tuple(dict.fromkeys(name for held in self._held() for name in held.changed()))

    def about_to_write(self, tensor: torch.Tensor) -> None:
        """Copy what a held tensor holds before an operator writes to it."""
        content = self._contents.get(memory_of(tensor))
        if content is not None:
            content.save()

    def _held(self) -> Iterator[Held]:
        """Yield all that is held; tensors come after what says which they are, their bytes after their places."""
        yield from self._parts
        yield from self._states.values()
        yield from self._contents.values()

    def _hold(self, name: str, tensor: torch.Tensor, *, copied: bool) -> None:
        if id(tensor) in self._states:
            return
        self._states[id(tensor)] = TensorState(name, tensor)
        self._hold_content(name, tensor, copied=copied)
        if tensor.is_leaf and tensor.grad is not None:
            self._hold_content(f"gradient of {name}", tensor.grad, copied=False)

    def _hold_content(self, name: str, tensor: torch.Tensor, *, copied: bool) -> None:
        if tensor.is_meta:
            return
        memory = memory_of(tensor)
        content = self._contents.get(memory)
        if content is None:
            content = self._contents[memory] = Content(name, tensor)
        if copied or not is_plain(tensor):
            content.save()
