"""What a model consists of, as far as it can change: attributes, containers, plain objects, generators, arrays."""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Final, TypeAlias

import torch

from detlint.runtime.held import CONTAINERS, HOUSEKEEPING, Attributes, Container, Housekeeping, Registry, below
from detlint.runtime.held_numbers import ARRAYS, GENERATORS, Array, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.held import Held

_REGISTRIES: Final = ("_parameters", "_buffers", "_modules")
_LOOKED_INTO: Final = (*CONTAINERS, tuple, torch.Tensor, *GENERATORS, *ARRAYS)
_OBJECTS: Final = (torch.optim.Optimizer, SimpleNamespace, Namespace)
"""Objects of torch and Python that hold what changes."""
_OPAQUE: Final = (type, torch.nn.Module, ModuleType, FunctionType, MethodType)
_DEEPEST: Final = 100
"""Containers and objects within each other: a list that is linked by hand can be as long as Python lets it be."""

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
        elif attribute in HOUSEKEEPING:
            if isinstance(value, CONTAINERS):
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
    elif isinstance(value, GENERATORS):
        if not isinstance(value, random.SystemRandom):  # which has no state
            yield Stream(name, value)
    elif isinstance(value, ARRAYS):
        if value.flags.writeable and not value.dtype.hasobject:
            yield Array(name, value)
    elif isinstance(value, (tuple, *CONTAINERS)):
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
