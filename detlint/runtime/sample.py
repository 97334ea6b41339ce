"""What goes into the model and what comes out: samples, and the tensors of any output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from detlint.errors import AuditError, first_few
from detlint.runtime.copies import Copier
from detlint.runtime.trees import free_path, leaves, mapped, tensors_by_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_PLAIN: Final = (bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device, torch.layout)
_HIDING_NOTHING: Final = (torch.Tensor, *_PLAIN)
"""Types of values in an output that hide no tensors."""
_OTHER_THINGS: Final = (type, torch.nn.Module, ModuleType)
"""Objects that are no part of a result, whatever their attributes hold."""

_AS_TUPLE: Final = ": write (batch,) if the model takes it as one argument, tuple(batch) if as several"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Arguments of one call of the model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def copied(self) -> Sample:
        """Return a sample of its own memory, so that a model that writes to its input changes no other run."""
        try:
            return self.mapped(Copier(self.tensors().values()).value)
        except (TypeError, RuntimeError) as error:
            raise AuditError(f"the sample cannot be copied for a second run: {error}") from error

    def mapped(self, change: Callable[[Any], object]) -> Sample:
        """Return a sample that holds `change(leaf)` in the place of each leaf, in containers of its own."""
        args, kwargs = mapped((self.args, dict(self.kwargs)), change)
        return Sample(args, kwargs)

    def leaves(self) -> list[Any]:
        """Return all values, in the order in which `mapped` meets them."""
        return [leaf for _, leaf in leaves((self.args, dict(self.kwargs)))]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return its tensors by name: "args[0]", "pixel_values"."""
        named: dict[str, object] = {f"args[{place}]": value for place, value in enumerate(self.args)}
        return tensors_by_path({**named, **self.kwargs})


def as_sample(value: object) -> Sample:
    """Read what a user may pass as a sample: a tensor, a tuple, a mapping or a `Sample`.

    A tuple with names (a batch, a packed sequence) is one argument.

    Raises:
        AuditError: it is something else.
    """
    if isinstance(value, Sample):
        return value
    if isinstance(value, torch.Tensor):
        return Sample((value,))
    if isinstance(value, tuple):
        return Sample((value,) if hasattr(value, "_fields") else value)
    if isinstance(value, Mapping):
        return Sample((), dict(value))
    raise AuditError(
        f"sample: expected a tensor, a tuple of arguments, a dict of keyword arguments or detlint.Sample, "
        f"got {type(value).__name__}{_AS_TUPLE * isinstance(value, list)}"
    )


def require_values(tensors: Mapping[str, torch.Tensor], hint: str = "") -> None:
    """Refuse tensors that nothing can be compared of.

    Raises:
        AuditError: some lie on the meta device.
    """
    empty = [name for name, tensor in tensors.items() if tensor.is_meta]
    if empty:
        raise AuditError(f"the meta device holds no values to compare ({first_few(empty)}){hint}")


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The tensors of an output by path, detached; `opaque` names types of values that were not looked into."""

    tensors: Mapping[str, torch.Tensor]
    opaque: tuple[str, ...]

    def copied(self) -> Output:
        """Return an output of its own memory: what lies in the model's is put back, or is the next run's."""
        return Output({path: tensor.clone() for path, tensor in self.tensors.items()}, self.opaque)


def read_output(value: object) -> Output:
    """Collect the tensors of what a model returned.

    Raises:
        AuditError: there are none.
    """
    if isinstance(value, GeneratorType):
        raise AuditError("the model returned a generator, which can be read only once: return a list or a tuple")
    if value is None:
        raise AuditError("the model returned None: there is nothing to compare; return the tensors to audit")
    opaque: dict[str, None] = {}
    found: dict[str, torch.Tensor] = {}
    for path, leaf in _looked_into(value, set()):
        if isinstance(leaf, torch.Tensor):
            found[free_path(path or "output", found)] = leaf.detach()
        elif leaf is not None and not isinstance(leaf, _HIDING_NOTHING):
            opaque[f"{path} ({type(leaf).__name__})" if path else type(leaf).__name__] = None
    if not found:
        raise AuditError(f"the model's output ({type(value).__name__}) holds no tensors: there is nothing to compare")
    return Output(found, tuple(opaque))


def _looked_into(value: object, met: set[int], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the leaves of a result with their paths; of objects, such as caches of keys and values, the attributes."""
    for place, leaf in leaves(value, path):
        attributes = None if isinstance(leaf, _OTHER_THINGS) or callable(leaf) else getattr(leaf, "__dict__", None)
        if isinstance(leaf, _HIDING_NOTHING) or not attributes:
            yield place, leaf
        elif id(leaf) not in met:
            met.add(id(leaf))
            yield from _looked_into(dict(attributes), met, place)
