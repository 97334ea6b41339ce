"""Checks what is to be audited before anything runs: the model, its modules, its device."""

from __future__ import annotations

import copy
import dis
import functools
from collections import deque
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.parameter import is_lazy

from detlint.errors import AuditError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from detlint.runtime.sample import Sample

_DEPTH: Final = 2
"""Objects and containers within each other that are searched for modules."""
_PLAIN: Final = (bool, int, float, complex, str, bytes, torch.Tensor, NoneType)


def modules_of(model: object) -> tuple[torch.nn.Module, ...]:
    """Return the modules that a model consists of: itself, or those that a function or an object holds.

    Looks at bound methods, partials, what functions wrap, call, close over and name as globals, and at containers and
    attributes.
    """
    found: dict[int, torch.nn.Module] = {id(module): module for module in _held(model)}
    inner = {id(child) for module in found.values() for child in module.modules() if child is not module}
    return tuple(module for key, module in found.items() if key not in inner)


def _held(model: object) -> Iterator[torch.nn.Module]:
    """Yield modules, those held by the fewest objects and containers within each other first."""
    met: set[int] = set()
    waiting = deque([(model, 0)])
    while waiting:
        value, depth = waiting.popleft()
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, torch.nn.Module):
            yield value
        elif isinstance(value, (FunctionType, MethodType, functools.partial)):
            waiting.extendleft((part, depth) for _, part in used_by(value))
        elif depth < _DEPTH:
            waiting.extend((part, depth + 1) for part in _parts(value) if not isinstance(part, _PLAIN))


def used_by(function: FunctionType | MethodType | functools.partial[object]) -> Iterator[tuple[str, object]]:
    """Yield what a function can reach, with names; of torch's own nothing, since it holds no modules."""
    if isinstance(function, MethodType):
        yield from (("self", function.__self__), (function.__name__, function.__func__))
    elif isinstance(function, functools.partial):
        yield from (("function", function.func), ("arguments", function.args), ("keywords", function.keywords))
    elif (function.__module__ or "").partition(".")[0] != "torch":
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            if _filled(cell):
                yield name, cell.cell_contents
        for name in _globals_of(function.__code__):
            if name in function.__globals__:
                yield name, function.__globals__[name]
        yield from function.__dict__.items()
        yield from (("a default", value) for value in function.__defaults__ or ())


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the globals that code reads, and the functions and comprehensions written in it."""
    yield from names_in(code, "LOAD_GLOBAL")


def names_in(code: CodeType, instruction: str) -> Iterator[str]:
    """Yield what the instructions of one kind name in code, and in the functions and comprehensions written in it."""
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == instruction)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant, instruction)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set)):
        return value
    return () if isinstance(value, (type, ModuleType, *_PLAIN)) else getattr(value, "__dict__", {}).values()


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def name_of(model: Callable[..., object]) -> str:
    """Return the name of a module's class, or that of a function."""
    kind = type(model).__name__
    return kind if isinstance(model, torch.nn.Module) else str(getattr(model, "__name__", kind))


def named_modules(roots: Sequence[torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield all modules by path, each once. Where there are several roots, paths begin with the place of theirs."""
    met: set[torch.nn.Module] = set()
    for prefix, root in _prefixed(roots):
        yield from root.named_modules(met, prefix)


def named_parameters(roots: Sequence[torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Yield all parameters by name."""
    for prefix, root in _prefixed(roots):
        yield from root.named_parameters(prefix)


def named_tensors(roots: Sequence[torch.nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all parameters and buffers by name."""
    for prefix, root in _prefixed(roots):
        yield from root.named_parameters(prefix)
        yield from root.named_buffers(prefix)


def _prefixed(roots: Sequence[torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Module]]:
    for place, root in enumerate(roots):
        yield (str(place) if len(roots) > 1 else ""), root


def moved_to(model: Callable[..., object], sample: Sample, device: str | None) -> tuple[Callable[..., object], Sample]:
    """Bring model and sample to `device`; the user's model stays where it is, so a copy is made.

    Raises:
        AuditError: the model cannot be called or has parameters without a shape, sample and model are on different
            devices, there is no such device, or a function cannot be moved.
    """
    if not callable(model):
        raise AuditError(f"model: expected a module or a function, got {type(model).__name__}")
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise AuditError(f"model: {model.__name__} is a class: pass an instance, {model.__name__}(…)")
    _check_shaped(model)
    if device is not None:
        wanted = _device(device)
        places = {tensor.device for module in modules_of(model) for tensor in module.parameters()}
        if any(place.type != wanted.type for place in places):
            if not isinstance(model, torch.nn.Module):
                raise AuditError(f"device={device!r}: only a module can be moved; build the model there")
            model = copy.deepcopy(model).to(wanted)
        sample = sample.mapped(lambda leaf: leaf.to(wanted) if isinstance(leaf, torch.Tensor) else leaf)
    _check_devices(model, sample)
    return model, sample


def _device(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either where a device is missing
        raise AuditError(f"device={name!r}: {(str(error).splitlines() or [''])[0]}") from None


def _check_shaped(model: Callable[..., object]) -> None:
    for name, tensor in named_tensors(modules_of(model)):
        if is_lazy(tensor):
            raise AuditError(f"model: {name} has no shape before the first call: run the model once first")


def _check_devices(model: Callable[..., object], sample: Sample) -> None:
    places = {
        str(tensor.device)
        for module in modules_of(model)
        for tensor in module.parameters()
        if tensor.device.type != "meta"
    }
    if len(places) != 1:  # no parameters, or spread over devices by a plan of its own
        return
    (place,) = places
    for name, tensor in sample.tensors().items():
        if str(tensor.device) != place:
            raise AuditError(
                f"sample: {name} is on {tensor.device}, but the model is on {place}: move one, or pass device=…"
            )
