"""What the code of a model reaches besides its modules: attributes of classes, globals, what functions close over."""

from __future__ import annotations

import functools
import sys
from collections import deque
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Final

import torch

from detlint.runtime.held import Names
from detlint.runtime.parts import parts_within
from detlint.runtime.targets import named_modules, names_in, used_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.parts import Part

_MOST_FUNCTIONS: Final = 1000
"""Functions whose code is read; a library can lead from any of them to all."""
_FUNCTIONS: Final = (FunctionType, MethodType, functools.partial)


def surroundings(model: object, roots: Sequence[torch.nn.Module], met: set[int]) -> Iterator[Part]:
    """Yield what can change of all that functions and classes of a model keep; what was `met` is left out.

    It goes by names such as "Net.cache" and "package.module.TABLE". Followed are the model itself, the methods of the
    modules' classes, and the functions that these name. What torch and Python keep is none of the model's state.
    """
    met.add(id(sys.modules))
    functions: deque[object] = deque([model])
    kinds: list[type] = [type(module) for _, module in named_modules(roots)]
    if not isinstance(model, (torch.nn.Module, *_FUNCTIONS)):
        yield from parts_within("the model", model, met)
        kinds.append(type(model))
    for kind in dict.fromkeys(base for each in dict.fromkeys(kinds) for base in each.__mro__):
        for name, value in () if _is_foreign(kind) else [*vars(kind).items()]:
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                functions.append(function)
            elif not name.startswith("__"):
                yield from parts_within(f"{kind.__name__}.{name}", value, met)
    yield from _kept_by_functions(functions, met)


def _kept_by_functions(waiting: deque[object], met: set[int]) -> Iterator[Part]:
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.popleft()
        if not isinstance(function, _FUNCTIONS) or id(function) in seen or _is_foreign(function):
            continue
        seen.add(id(function))
        home = getattr(function, "__module__", "")
        if isinstance(function, FunctionType):
            stored = tuple(dict.fromkeys(names_in(function.__code__, "STORE_GLOBAL")))
            if stored:
                yield Names(home, function.__globals__, stored)
        for name, value in used_by(function):
            if isinstance(value, _FUNCTIONS):
                waiting.append(value)
            else:
                yield from parts_within(f"{home}.{name}", value, met)


def _is_foreign(value: object) -> bool:
    home = (getattr(value, "__module__", "") or "").partition(".")[0]
    return home == "torch" or (home in sys.stdlib_module_names and not isinstance(value, functools.partial))
