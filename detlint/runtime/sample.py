"""What goes into the model and what comes out: samples, and the tensors of any output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

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

_AS_ARGUMENT: Final = ": write (batch,) if the model takes it as one argument"
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
        f"got {type(value).__name__}{_AS_TUPLE if isinstance(value, list) else _AS_ARGUMENT}"
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
    """The values of an output by path: its tensors, detached, and its numbers, texts and arrays as tensors.

    `opaque` names types of values that were not looked into.
    """

    tensors: Mapping[str, torch.Tensor]
    opaque: tuple[str, ...]

    def copied(self) -> Output:
        """Return an output of its own memory: what lies in the model's is put back, or is the next run's."""
        return Output({path: tensor.clone() for path, tensor in self.tensors.items()}, self.opaque)


def read_output(value: object) -> Output:
    """Collect what can be compared of what a model returned.

    Raises:
        AuditError: there is nothing.
    """
    if isinstance(value, GeneratorType):
        raise AuditError("the model returned a generator, which can be read only once: return a list or a tuple")
    if value is None:
        raise AuditError("the model returned None: there is nothing to compare; return the tensors to audit")
    opaque: dict[str, None] = {}
    found: dict[str, torch.Tensor] = {}
    with _disable_current_modes():  # what is done to look at an output is no operator of the model
        for path, leaf, own in _looked_into(value, set()):
            tensor = leaf.detach() if isinstance(leaf, torch.Tensor) else _as_tensor(leaf) if own else None
            if tensor is not None:
                found[free_path(path or "output", found)] = tensor
            elif leaf is not None and not isinstance(leaf, _HIDING_NOTHING):
                opaque[f"{path} ({type(leaf).__name__})" if path else type(leaf).__name__] = None
    if not found:
        kind = type(value).__name__
        raise AuditError(f"the model's output ({kind}) holds no tensors, numbers or texts: there is nothing to compare")
    return Output(found, tuple(opaque))


def _as_tensor(leaf: object) -> torch.Tensor | None:
    """Return a number, the bytes of a text or an array of NumPy as a tensor; None of anything else."""
    if isinstance(leaf, bool):
        return torch.tensor(leaf)
    if isinstance(leaf, (float, complex)):
        return torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else torch.complex128)
    if isinstance(leaf, int) and -(2**63) <= leaf < 2**63:
        return torch.tensor(leaf, dtype=torch.int64)
    if isinstance(leaf, (int, str, bytes)):
        text = leaf if isinstance(leaf, bytes) else str(leaf).encode(errors="surrogatepass")
        return torch.tensor(list(text), dtype=torch.uint8)
    try:
        return torch.from_numpy(leaf.copy()) if hasattr(leaf, "__array_interface__") else None  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # of objects and texts torch makes no tensors
        return None


def _looked_into(value: object, met: set[int], path: str = "", own: bool = True) -> Iterator[tuple[str, object, bool]]:
    """Yield the leaves of a result with their paths; of objects, such as caches of keys and values, the attributes.

    The last says whether a leaf is what the model returned, and no attribute of an object, which can be a setting.
    """
    for place, leaf in leaves(value, path):
        attributes = None if isinstance(leaf, _OTHER_THINGS) or callable(leaf) else getattr(leaf, "__dict__", None)
        if isinstance(leaf, _HIDING_NOTHING) or not attributes:
            yield place, leaf, own
        elif id(leaf) not in met:
            met.add(id(leaf))
            yield from _looked_into(dict(attributes), met, place, own=False)
