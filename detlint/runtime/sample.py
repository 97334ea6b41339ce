"""What goes into the model and what comes out: samples, and the tensors of any output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import GeneratorType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from detlint.errors import AuditError, first_few
from detlint.runtime.copies import Copier


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Arguments of one call of the model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def copied(self) -> Sample:
        """Return a sample of its own memory, so that a model that writes to its input changes no other run."""
        try:
            args, kwargs = Copier().values((self.args, dict(self.kwargs)))
        except (TypeError, RuntimeError) as error:
            raise AuditError(f"the sample cannot be copied for a second run: {error}") from error
        return Sample(args, kwargs)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return its tensors by name: "args[0]", "pixel_values"."""
        named: dict[str, object] = {f"args[{place}]": value for place, value in enumerate(self.args)}
        return {path: leaf for path, leaf in leaves({**named, **self.kwargs}) if isinstance(leaf, torch.Tensor)}


def as_sample(value: object) -> Sample:
    """Read what a user may pass as a sample: a tensor, a tuple, a mapping or a `Sample`.

    Raises:
        AuditError: it is something else.
    """
    if isinstance(value, Sample):
        return value
    if isinstance(value, torch.Tensor):
        return Sample((value,))
    if isinstance(value, tuple):
        return Sample(value)
    if isinstance(value, Mapping):
        return Sample((), dict(value))
    raise AuditError(
        f"sample: expected a tensor, a tuple of arguments, a dict of keyword arguments or detlint.Sample, "
        f"got {type(value).__name__}"
    )


def require_values(tensors: Mapping[str, torch.Tensor], hint: str = "") -> None:
    """Refuse tensors that nothing can be compared of.

    Raises:
        AuditError: some lie on the meta device.
    """
    empty = [name for name, tensor in tensors.items() if tensor.is_meta]
    if empty:
        raise AuditError(f"the meta device holds no values to compare ({first_few(empty)}){hint}")


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield what a nest of mappings, sequences, dataclasses and pytree nodes holds, with its path."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, (list, tuple)):
        names = getattr(tree, "_fields", None)
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}.{names[place]}".lstrip(".") if names else f"{path}[{place}]")
    elif is_dataclass(tree) and not isinstance(tree, type):
        for item in fields(tree):
            yield from leaves(getattr(tree, item.name), f"{path}.{item.name}".lstrip("."))
    else:
        nodes, _ = tree_flatten_with_path(tree)
        if len(nodes) == 1 and nodes[0][1] is tree:
            yield path, tree
        else:  # a container that its library registered with pytree
            for keys, value in nodes:
                yield from leaves(value, path + "".join(map(str, keys)))


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The tensors of an output by path, detached; `opaque` names types of values that were not looked into."""

    tensors: Mapping[str, torch.Tensor]
    opaque: tuple[str, ...]


def read_output(value: object) -> Output:
    """Collect the tensors of what a model returned.

    Raises:
        AuditError: there are none.
    """
    if isinstance(value, GeneratorType):
        raise AuditError("the model returned a generator, which can be read only once: return a list or a tuple")
    if value is None:
        raise AuditError("the model returned None: there is nothing to compare; return the tensors to audit")
    found: dict[str, torch.Tensor] = {}
    opaque: dict[str, None] = {}
    for path, leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            found[path or "output"] = leaf.detach()
        elif leaf is not None and not isinstance(leaf, (bool, int, float, complex, str, bytes, torch.Size)):
            opaque[f"{path} ({type(leaf).__name__})" if path else type(leaf).__name__] = None
    if not found:
        raise AuditError(f"the model's output ({type(value).__name__}) holds no tensors: there is nothing to compare")
    return Output(found, tuple(opaque))
