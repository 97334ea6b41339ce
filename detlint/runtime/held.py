"""What an audit holds of a model: each piece knows whether it changed, and puts itself back."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from detlint.runtime.digests import Digester, is_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from detlint.runtime.events import Digest


class Held(Protocol):
    """One piece of what a model consists of."""

    name: str

    def changed(self) -> Iterator[str]:
        """Yield the names of what is not as it was, as far as a result can depend on it."""

    def restore(self) -> None:
        """Put back what is not as it was; what did not change is not touched."""


class Content:
    """The bytes of one storage, or of one tensor that does not lie in one; copied only by `save`."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name = name
        self._tensor = tensor.detach()
        if is_plain(tensor):
            octets = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            self._tensor = octets.set_(tensor.untyped_storage())
        self._before = self._digest()
        self._copy: torch.Tensor | None = None

    def save(self) -> None:
        """Copy the bytes, which are about to be written to."""
        if self._copy is None:
            self._copy = self._tensor.clone()

    def changed(self) -> Iterator[str]:
        """Yield the name if a copy was made, and the bytes are others now."""
        if self._copy is not None and not self.intact():
            yield self.name

    def restore(self) -> None:
        """Write the copy back."""
        if self._copy is not None and not self.intact():
            with torch.inference_mode(self._tensor.is_inference()), torch.no_grad():
                self._tensor.copy_(self._copy)

    def intact(self) -> bool:
        """Are the bytes those of the beginning, copied or not?"""
        return self._digest() == self._before

    def _digest(self) -> Digest | None:
        digester = Digester()
        digest = digester.digest(self._tensor)
        return digest if digest is None else digester.fetch().get(digest, digest)


def memory_of(tensor: torch.Tensor) -> int:
    """Return a key that tensors which share memory share."""
    return tensor.untyped_storage()._cdata if is_plain(tensor) else id(tensor)


class TensorState:
    """What belongs to a tensor besides its content: where it lies, gradient, flag and hooks."""

    _HOOKS: Final = ("_backward_hooks", "_post_accumulate_grad_hooks")

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name = name
        self._tensor = tensor
        self._data = tensor.detach()
        self._leaf = tensor.is_leaf
        self._requires_grad, self._grad = tensor.requires_grad, tensor.grad if self._leaf else None
        self._hooks = {hook: _copied(getattr(tensor, hook, None)) for hook in self._HOOKS}

    def changed(self) -> Iterator[str]:
        """Yield the name if the tensor lies elsewhere; gradients come and go without being state."""
        if self._moved():
            yield self.name

    def restore(self) -> None:
        """Give the tensor back its place, its history and what hangs on it."""
        tensor = self._tensor
        if self._leaf and not tensor.is_leaf:  # values that need gradients were written to it
            tensor.detach_()
        if self._moved():
            tensor.data = self._data
        if self._leaf and tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if self._leaf and tensor.grad is not self._grad:
            tensor.grad = self._grad
        for hook, functions in self._hooks.items():
            if getattr(tensor, hook, None) != functions:
                setattr(tensor, hook, functions)

    def _moved(self) -> bool:
        return is_plain(self._tensor) and _place(self._tensor) != _place(self._data)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()


class Attributes:
    """Which objects the attributes of one object are, of a module or another."""

    def __init__(self, name: str, owner: object) -> None:
        self.name = name
        self._now = vars(owner)
        self._before = dict(self._now)

    def changed(self) -> Iterator[str]:
        """Yield attributes that are other objects now, or other values where they are plain; torch's own left out."""
        for name in sorted(self._now.keys() | self._before.keys()):
            both = name in self._now and name in self._before
            if name not in HOUSEKEEPING and not (both and _same(self._before[name], self._now[name])):
                yield below(self.name, name)

    def restore(self) -> None:
        """Put back every attribute, and take away what is new."""
        if not (_identical(self._now, self._before) and _identical(self._now.values(), self._before.values())):
            self._now.clear()
            self._now.update(self._before)


class Names:
    """Globals of one file that a function sets: `global steps`."""

    def __init__(self, name: str, namespace: dict[str, Any], names: Collection[str]) -> None:
        self.name = name
        self._now = namespace
        self._before = {each: namespace.get(each, _ABSENT) for each in names}

    def changed(self) -> Iterator[str]:
        """Yield those that are other objects now, or other values where they are plain."""
        for name, before in self._before.items():
            if not _same(before, self._now.get(name, _ABSENT)):
                yield below(self.name, name)

    def restore(self) -> None:
        """Put them back, and take away what was not there."""
        for name, before in self._before.items():
            if before is not _ABSENT:
                self._now[name] = before
            else:
                self._now.pop(name, None)


class Container:
    """What a list, dict, set or deque holds; overridden methods, which may refuse changes, are not called."""

    def __init__(self, name: str, container: Any) -> None:
        self.name = name
        self._now = container
        self._kind = _kind(container)
        self._before = self._items()

    def changed(self) -> Iterator[str]:
        """Yield the name if items are other objects now, or other values where they are plain."""
        if not _same(self._before, self._items()):
            yield self.name

    def restore(self) -> None:
        """Put back the items, in their order."""
        if _identical(self._items(), self._before):
            return
        kind = self._kind
        kind.clear(self._now)
        if issubclass(kind, dict):
            half = len(self._before) // 2
            for key, value in zip(self._before[:half], self._before[half:], strict=True):
                kind.__setitem__(self._now, key, value)
        elif issubclass(kind, set):
            kind.update(self._now, self._before)
        else:
            kind.extend(self._now, self._before)

    def _items(self) -> tuple[Any, ...]:
        """Return what it holds, in order: of a dict the keys, then the values."""
        items = tuple(self._kind.__iter__(self._now))
        return (*items, *self._kind.values(self._now)) if items and issubclass(self._kind, dict) else items


class Registry(Container):
    """The parameters, buffers or submodules of a module, named one by one."""

    def changed(self) -> Iterator[str]:
        """Yield those that are other objects now."""
        half = len(self._before) // 2
        before = dict(zip(self._before[:half], self._before[half:], strict=True))
        for name in sorted(before.keys() | self._now.keys()):
            if before.get(name) is not self._now.get(name):
                yield below(self.name, name)


class Housekeeping(Container):
    """Hooks and the like, which are put back and are no state that a result depends on."""

    def changed(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()


def below(path: str, name: str) -> str:
    """Return the path of what a module holds under a name."""
    return f"{path}.{name}" if path else name


_ABSENT: Final = object()
CONTAINERS: Final = (list, dict, set, deque)
HOUSEKEEPING: Final = frozenset(name for name in torch.nn.Module().__dict__ if name.startswith("_"))


def _kind(container: object) -> Any:
    """Return the built-in class whose methods change a container."""
    return next(kind for kind in (OrderedDict, *CONTAINERS) if isinstance(container, kind))


def _identical(one: Collection[object], two: Collection[object]) -> bool:
    return len(one) == len(two) and all(map(operator.is_, one, two))


def _same(before: object, now: object) -> bool:
    """Is it the same object, or an equal one of a type whose `==` says yes or no?"""
    if before is now:
        return True
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(before) == len(now) and all(map(_same, before, now))
    return type(before) is type(now) and isinstance(before, (bool, int, float, str)) and before == now


def _copied(hooks: Any) -> Any:
    return hooks if hooks is None else hooks.copy()
