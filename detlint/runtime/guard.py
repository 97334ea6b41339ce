"""Leaves the model, the generators and torch's settings as they were, between runs and after exceptions too."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from detlint.runtime.digests import Digester, is_plain
from detlint.runtime.flags import read_flags, write_flags
from detlint.runtime.generators import read_generators, write_generators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from detlint.runtime.events import Digest


class Guard:
    """Context manager around an audit; `rewind` puts the modules back between two runs.

    Buffers are copied at once. Parameters and gradients are digested, and copied only when an operator is about
    to write to them (the tracer calls `about_to_write`), so an audit does not need the model's memory twice.
    On exit `problems` says what changed behind the tracer's back and could not be put back.
    """

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._roots = modules
        self.problems: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self._flags, self._generators = read_flags(), read_generators()
        self._grad_enabled, self._dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        modules = {id(module): (path, module) for root in self._roots for path, module in root.named_modules()}
        self._attributes = [_Attributes(path, module) for path, module in modules.values()]
        self._tensors: list[_TensorState] = []
        self._contents: dict[int, _Content] = {}
        for name, tensor in self._named_tensors():
            self._tensors.append(_TensorState(tensor))
            self._hold(name, tensor, copied=not isinstance(tensor, torch.nn.Parameter))
            if tensor.grad is not None:
                self._hold(f"gradient of {name}", tensor.grad, copied=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rewind()
        self.problems = tuple(
            f"{content.name} was changed by something the tracer cannot see, and is not as it was"
            for content in self._contents.values()
            if not content.intact()
        )
        torch.set_grad_enabled(self._grad_enabled)
        torch.set_default_dtype(self._dtype)
        write_generators(self._generators)
        write_flags(self._flags)

    def rewind(self) -> None:
        """Put the modules back to where they were on entry."""
        for attributes in self._attributes:
            attributes.restore()
        for state in self._tensors:
            state.restore()
        for content in self._contents.values():
            content.restore()

    def changed(self) -> tuple[str, ...]:
        """Which attributes of the modules, parameters and buffers changed since entry? Torch's own left out."""
        attributes = dict.fromkeys(name for attributes in self._attributes for name in attributes.changed())
        written = (content.name for content in self._contents.values() if content.saved and not content.intact())
        return tuple(attributes | dict.fromkeys(written))

    def about_to_write(self, tensor: torch.Tensor) -> None:
        """Copy what a parameter holds before an operator writes to it."""
        content = self._contents.get(_key(tensor))
        if content is not None:
            content.save()

    def _named_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for root in self._roots:
            yield from root.named_parameters()
            yield from root.named_buffers()

    def _hold(self, name: str, tensor: torch.Tensor, *, copied: bool) -> None:
        if tensor.is_meta:
            return
        content = self._contents.setdefault(_key(tensor), _Content(name, tensor))
        if copied or not is_plain(tensor):
            content.save()


def _key(tensor: torch.Tensor) -> int:
    """Tensors that share memory share a key."""
    return tensor.untyped_storage()._cdata if is_plain(tensor) else id(tensor)


class _Content:
    """The bytes of one storage, or of one tensor that does not lie in one."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name = name
        self._tensor = tensor.detach()
        if is_plain(tensor):
            octets = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            self._tensor = octets.set_(tensor.untyped_storage())
        self._before = self._digest()
        self._copy: torch.Tensor | None = None

    @property
    def saved(self) -> bool:
        return self._copy is not None

    def save(self) -> None:
        if self._copy is None:
            self._copy = self._tensor.clone()

    def restore(self) -> None:
        if self._copy is not None and not self.intact():
            with torch.inference_mode(self._tensor.is_inference()), torch.no_grad():
                self._tensor.copy_(self._copy)

    def intact(self) -> bool:
        return self._digest() == self._before

    def _digest(self) -> Digest | None:
        digester = Digester()
        digest = digester.digest(self._tensor)
        return digest if digest is None else digester.fetch().get(digest, digest)


class _TensorState:
    """What belongs to a tensor besides its content: where it lies, gradient, flag and hooks."""

    _HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._data = tensor.detach()
        self._requires_grad, self._grad = tensor.requires_grad, tensor.grad
        self._hooks = {name: _copied(getattr(tensor, name, None)) for name in self._HOOKS}

    def restore(self) -> None:
        tensor = self._tensor
        if tensor.data_ptr() != self._data.data_ptr() or tensor.stride() != self._data.stride():
            tensor.data = self._data
        if tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if tensor.grad is not self._grad:
            tensor.grad = self._grad
        for name, hooks in self._hooks.items():
            if getattr(tensor, name, None) != hooks:
                setattr(tensor, name, hooks)


class _Attributes:
    """The attributes of one module, its hooks and containers among them; lists, dicts and sets one level deep."""

    def __init__(self, path: str, module: torch.nn.Module) -> None:
        self._path = path
        self._module = module
        self._values = dict(module.__dict__)
        self._containers = {
            name: _copied(value) for name, value in self._values.items() if isinstance(value, _CONTAINERS)
        }

    def changed(self) -> Iterator[str]:
        """Yield the names of attributes that hold other objects now, or other values where they are plain."""
        now = self._module.__dict__
        for name in sorted(now.keys() | self._values.keys()):
            if name in _TENSORS and name in self._containers:  # script modules keep theirs elsewhere
                before, after = self._containers[name], now.get(name, {})
                keys = sorted(before.keys() | after.keys())
                yield from (self._full(key) for key in keys if before.get(key) is not after.get(key))
            if name.startswith("_"):
                continue
            same = name in now and name in self._values and _same(self._values[name], now[name])
            if not same or (name in self._containers and not _same(_items(self._containers[name]), _items(now[name]))):
                yield self._full(name)

    def _full(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def restore(self) -> None:
        self._module.__dict__.clear()
        self._module.__dict__.update(self._values)
        for name, content in self._containers.items():
            container = self._values[name]
            container.clear()
            (container.extend if isinstance(container, (list, deque)) else container.update)(content)


_CONTAINERS = (list, dict, set, deque)
_TENSORS = ("_parameters", "_buffers")


def _same(before: object, now: object) -> bool:
    """Is it the same object, or an equal one of a type whose `==` says yes or no?"""
    if before is now:
        return True
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(before) == len(now) and all(map(_same, before, now))
    return type(before) is type(now) and isinstance(before, (bool, int, float, str)) and before == now


def _items(container: Any) -> tuple[object, ...]:
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


def _copied(container: Any) -> Any:
    return container if container is None else container.copy()
