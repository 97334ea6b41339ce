"""What an audit holds of a model: each piece knows whether it changed, and puts itself back."""

from __future__ import annotations

import copy
import operator
import random
import sys
from argparse import Namespace
from collections import OrderedDict, deque
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from detlint.runtime.digests import Digester, is_plain

try:
    import numpy as np
except ImportError:  # torch runs without NumPy
    np = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from detlint.runtime.events import Digest


def _bit_state(generator: Any) -> Any:
    return copy.deepcopy(generator.bit_generator.state)


def _set_bit_state(generator: Any, state: Any) -> None:
    generator.bit_generator.state = state


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
            if name not in _HOUSEKEEPING and not (both and _same(self._before[name], self._now[name])):
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
        now = tree_leaves(self._read(self._generator))
        return len(now) == len(tree_leaves(self._before)) and all(map(_equal, tree_leaves(self._before), now))


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


Part: TypeAlias = "Held | tuple[str, torch.Tensor]"
"""A piece, or a tensor with its name, of which there may be one already."""


def parts_of(name: str, module: torch.nn.Module, met: set[int]) -> Iterator[Part]:
    """Yield what a module consists of: its attributes, and what can change among them.

    Parameters and buffers are only counted (`Registry`): the module itself tells which tensors those are.
    """
    yield Attributes(name, module)
    for attribute, value in module.__dict__.items():
        if attribute in _REGISTRIES and isinstance(value, dict):
            yield Registry(name, value)
        elif attribute in _HOUSEKEEPING:
            if isinstance(value, _CONTAINERS):
                yield Housekeeping(below(name, attribute), value)
        else:
            yield from parts_within(below(name, attribute), value, met)


def parts_within(name: str, value: object, met: set[int], depth: int = 0) -> Iterator[Part]:
    """Yield what can change of a value and of all that it holds, `_DEEPEST` levels deep; what was `met` is left out.

    Containers and plain objects are looked into, but no modules, classes and functions, and nothing of Python's own.
    """
    if id(value) in met or depth > _DEEPEST or not _can_change(value):
        return
    met.add(id(value))
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, _GENERATORS):
        if not isinstance(value, random.SystemRandom):  # which has no state
            yield Stream(name, value)
    elif np is not None and isinstance(value, np.ndarray):
        if value.flags.writeable and not value.dtype.hasobject:
            yield Array(name, value)
    elif isinstance(value, (tuple, *_CONTAINERS)):
        if not isinstance(value, tuple):
            yield Container(name, value)
        items = dict.items(value) if isinstance(value, dict) else enumerate(value)
        for key, item in [*items]:
            if _can_change(item):
                yield from parts_within(f"{name}[{_short(key)}]", item, met, depth + 1)
    else:
        yield Attributes(name, value)
        for attribute, item in [*vars(value).items()]:
            yield from parts_within(below(name, attribute), item, met, depth + 1)


def _can_change(value: object) -> bool:
    if isinstance(value, _LOOKED_INTO):
        return True
    if isinstance(value, _OPAQUE) or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    home = type(value).__module__.partition(".")[0]
    return isinstance(value, _OBJECTS) or (home not in sys.stdlib_module_names and home not in ("torch", "numpy"))


def _short(key: object) -> str:
    return repr(key) if isinstance(key, (str, int, float, tuple)) else type(key).__name__


def below(path: str, name: str) -> str:
    """Return the path of what a module holds under a name."""
    return f"{path}.{name}" if path else name


_ABSENT: Final = object()
_CONTAINERS: Final = (list, dict, set, deque)
_STREAMS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]]] = {
    torch.Generator: (torch.Generator.get_state, torch.Generator.set_state),
    random.Random: (random.Random.getstate, random.Random.setstate),
}
"""Generators, and how to read and to write where they stand."""
if np is not None:
    _STREAMS[np.random.Generator] = (_bit_state, _set_bit_state)
    _STREAMS[np.random.RandomState] = (np.random.RandomState.get_state, np.random.RandomState.set_state)
_GENERATORS: Final = tuple(_STREAMS)
_LOOKED_INTO: Final = (*_CONTAINERS, tuple, torch.Tensor, *_GENERATORS, *(() if np is None else (np.ndarray,)))
_OBJECTS: Final = (torch.optim.Optimizer, SimpleNamespace, Namespace)
"""Objects of torch and Python that hold what changes."""
_OPAQUE: Final = (type, torch.nn.Module, ModuleType, FunctionType, MethodType)
_DEEPEST: Final = 100
"""Containers and objects within each other: a list that is linked by hand can be as long as Python lets it be."""
_REGISTRIES: Final = ("_parameters", "_buffers", "_modules")
_HOUSEKEEPING: Final = frozenset(name for name in torch.nn.Module().__dict__ if name.startswith("_"))


def _equal(one: object, two: object) -> bool:
    """Are two pieces of the state of a generator the same: numbers, names, tensors or arrays?"""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return torch.equal(one, two)
    if np is not None and isinstance(one, np.ndarray):
        return np.array_equal(one, two)  # type: ignore[arg-type]
    return one == two


def _kind(container: object) -> Any:
    """Return the built-in class whose methods change a container."""
    return next(kind for kind in (OrderedDict, *_CONTAINERS) if isinstance(container, kind))


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
